import type { IncomingMessage } from 'node:http'
import { markAuthenticated, type PrincipalLimit, type RateLimit } from '@boxoffice/node-http'
import { requestIdFrom } from '@boxoffice/protocol'
import type { Context } from 'hono'
import type { Principal, Principals } from '../../access/principals.ts'
import type { Origin } from '../../domain/audit-entry.ts'
import type { AddressOf, Asked } from '../../http/address.ts'
import { authenticate, countFailures, type HeaderOf, holderOf } from '../../http/auth.ts'
import type { Env } from '../../http/env.ts'
import { requestIdOf } from '../../http/request-id.ts'

/** Who asks, and what the request is called in the audit log. */
export type Caller = { principal: Principal; origin: Origin }

/** Finds who calls; throws the refusal of whom is not let in. */
export type CallerOf = (c: Context<Env>) => Promise<Caller>

export type KnownCallers = { principals: Principals; authFailures: RateLimit; controlLimit: PrincipalLimit; addressOf: AddressOf }

/** Whoever has a credential, as on every other route. */
export const knownCallers =
  (callers: KnownCallers): CallerOf =>
  (c) =>
    identify(callers, { asked: c, header: (name) => c.req.header(name), socket: c.env?.incoming?.socket, requestId: requestIdOf(c) })

/** The same for a request that asks for a socket, which no app of Hono sees. */
export const upgradeCallers =
  (callers: KnownCallers): ((request: IncomingMessage) => Promise<Caller>) =>
  (request) => {
    const header: HeaderOf = (name) => {
      const value = request.headers[name.toLowerCase()]
      return Array.isArray(value) ? value[0] : value
    }
    return identify(callers, {
      asked: { env: { incoming: request }, req: { header } },
      header,
      socket: request.socket,
      requestId: requestIdFrom(header('x-request-id')),
    })
  }

type Identified = { asked: Asked; header: HeaderOf; socket: object | undefined; requestId: string }

async function identify(
  { principals, authFailures, controlLimit, addressOf }: KnownCallers,
  { asked, header, socket, requestId }: Identified,
): Promise<Caller> {
  const address = addressOf(asked)
  const principal = await countFailures(authFailures, address, () => authenticate(header, principals))
  if (socket !== undefined) markAuthenticated(socket, holderOf(principal))
  const limited = controlLimit.refusal(principal)
  if (limited !== undefined) throw limited
  return callerAs(principal, address, requestId)
}

export const callerAs = (principal: Principal, ip: string | null, requestId: string): Caller => ({
  principal,
  origin: { requestId, tenant: principal.tenant, caller: principal.id, actor: principal.id, ip },
})
