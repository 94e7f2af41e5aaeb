import { timingSafeEqual } from 'node:crypto'
import type { PrincipalLimit, RateLimit } from '@boxoffice/node-http'
import { BoxofficeError, newRequestId, requestIdFrom } from '@boxoffice/protocol'
import { Credential } from '../../access/credential.ts'
import { hashKey, hasRight, type Principal, type Principals, ROOT_TENANT } from '../../access/principals.ts'
import { authenticate, countFailures, credentialOf, type HeaderOf } from '../../http/auth.ts'
import type { BoxCaller } from './box-sessions.ts'

/** Whoever holds the control token, or is this program's own parent. */
const BOX_OPERATOR = {
  id: 'box',
  tenant: ROOT_TENANT,
  role: 'operator' as const,
  actorType: 'agent' as const,
  capabilities: null,
  rights: new Set(['act_as', 'release', 'box'] as const),
}

export type Callers = {
  /** Who asks for control over boxes: a control token, or a key with the right "box" [2-50]. */
  controller(header: HeaderOf, address: string): Promise<BoxCaller>
  /** Anyone with a key, for the status alone [2-48]. */
  reader(header: HeaderOf, address: string): Promise<BoxCaller>
  operator(header: HeaderOf, address: string): Promise<BoxCaller>
  /** The program that started this one, on its standard input [2-45]. */
  parent(): BoxCaller
}

export type CallersOptions = {
  principals: Principals
  controlToken: string | undefined
  authFailures: RateLimit
  /** As of every other route with a principal. */
  controlLimit: PrincipalLimit
}

export function createCallers({ principals, controlToken, authFailures, controlLimit }: CallersOptions): Callers {
  const expected = controlToken === undefined ? undefined : Buffer.from(hashKey(controlToken))
  const byToken = (header: HeaderOf): Principal | undefined => {
    if (expected === undefined) return undefined
    const credential = credentialOf(header)
    return timingSafeEqual(Buffer.from(hashKey(credential.reveal())), expected) ? { ...BOX_OPERATOR, credential } : undefined
  }
  const reader = async (header: HeaderOf, address: string): Promise<BoxCaller> => {
    const principal = await countFailures(authFailures, address, () => byToken(header) ?? authenticate(header, principals))
    controlLimit.require(principal)
    return callerOf(principal, requestIdFrom(header('x-request-id')), address)
  }
  const having = async (
    header: HeaderOf,
    address: string,
    allows: (principal: Principal) => boolean,
    needs: string,
  ): Promise<BoxCaller> => {
    const caller = await reader(header, address)
    if (!allows(caller.principal)) throw new BoxofficeError('FORBIDDEN', `this takes ${needs}`)
    return caller
  }
  return {
    reader,
    controller: (header, address) =>
      having(header, address, (principal) => hasRight(principal, 'box'), 'a key with the right "box", or the control token'),
    operator: (header, address) => having(header, address, ({ role }) => role === 'operator', 'a key with the role "operator"'),
    parent: () => callerOf({ ...BOX_OPERATOR, credential: new Credential('', 'authorization') }, newRequestId(), null),
  }
}

const callerOf = (principal: Principal, requestId: string, ip: string | null): BoxCaller => ({
  principal,
  origin: { requestId, tenant: principal.tenant, caller: principal.id, actor: principal.id, ip },
})
