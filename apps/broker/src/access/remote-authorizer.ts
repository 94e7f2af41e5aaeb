import type { Scope } from '@boxoffice/protocol'
import type { Ownership } from '../store/session-store.ts'
import { type AccessMode, type Authorizer, claimAuthorizer, creates, type Decision, decision } from './authorizer.ts'
import type { Principal } from './principals.ts'
import type { RemoteResponse } from './remote-responses.ts'

/** The same question has the same answer, whoever's ownership it is. */
export type Ask = (principal: Principal, scope: Scope, ownership: Ownership, mode: AccessMode) => Promise<RemoteResponse>

/** Operators are not asked about: everything in their tenant is theirs, and their credential goes nowhere. */
export const remoteAuthorizer = (ask: Ask): Authorizer => ({
  async access(principal, scope, ownership, mode) {
    if (principal.role === 'operator') return claimAuthorizer.access(principal, scope, ownership, mode)
    return decide(await ask(principal, scope, ownership, mode), principal, ownership, mode)
  },
})

function decide(answer: RemoteResponse, principal: Principal, { owner }: Ownership, mode: AccessMode): Decision {
  if (!answer.allow) return decision('denied')
  const { role, capabilities } = answer
  if (role !== 'member' && owner === null && creates(mode)) return decision('claimable', capabilities)
  return decision(role ?? (owner === principal.id ? 'owner' : 'member'), capabilities)
}
