import { markAuthenticated, type PrincipalLimit, type RateLimit } from '@boxoffice/node-http'
import { newRequestId } from '@boxoffice/protocol'
import type { Context } from 'hono'
import { Credential } from '../../access/credential.ts'
import { type Principal, type Principals, ROOT_TENANT } from '../../access/principals.ts'
import type { AddressOf } from '../../http/address.ts'
import { authenticate, countFailures, holderOf } from '../../http/auth.ts'
import type { Env } from '../../http/env.ts'
import { requestIdOf } from '../../http/request-id.ts'
import type { StepCaller } from './steps.ts'

/** Finds who calls; throws the refusal of whom is not let in. */
export type CallerOf = (c: Context<Env>) => Promise<StepCaller>

export type KnownCallers = { principals: Principals; authFailures: RateLimit; controlLimit: PrincipalLimit; addressOf: AddressOf }

/** Whoever has a credential, as on every other route. */
export const knownCallers =
  ({ principals, authFailures, controlLimit, addressOf }: KnownCallers): CallerOf =>
  async (c) => {
    const address = addressOf(c)
    const principal = await countFailures(authFailures, address, () => authenticate((name) => c.req.header(name), principals))
    const socket = c.env?.incoming?.socket
    if (socket !== undefined) markAuthenticated(socket, holderOf(principal))
    const limited = controlLimit.refusal(principal)
    if (limited !== undefined) throw limited
    return callerAs(principal, address, requestIdOf(c))
  }

/** Everybody who reaches the listener is the same one [3-25]. */
const anyone: Principal = {
  id: 'sbs',
  tenant: ROOT_TENANT,
  role: 'user',
  rights: new Set(['release']),
  actorType: 'agent',
  capabilities: null,
  credential: new Credential('', 'authorization'),
}

export const anyCaller =
  (addressOf: AddressOf): CallerOf =>
  async (c) =>
    callerAs(anyone, addressOf(c), requestIdOf(c))

/** The server itself, for what it does at its end. */
export const ownCaller = (): StepCaller => callerAs(anyone, null, newRequestId())

const callerAs = (principal: Principal, ip: string | null, requestId: string): StepCaller => ({
  principal,
  origin: { requestId, tenant: principal.tenant, caller: principal.id, actor: principal.id, ip },
})
