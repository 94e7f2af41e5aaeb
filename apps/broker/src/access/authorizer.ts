import type { Scope } from '@boxoffice/protocol'
import type { Ownership } from '../store/store.ts'
import { hasRight, type Principal } from './principals.ts'

/**
 * What a principal is to a scope. `claimable`: nobody owns it yet, so its first `ensure` makes this principal the owner.
 */
export type Access = 'owner' | 'member' | 'claimable' | 'denied'

/** Decides who may use a scope [C-01]. Later also: the thread's own server, a webhook. */
export interface Authorizer {
  access(principal: Principal, scope: Scope, ownership: Ownership): Promise<Access>
}

/** The default: there is no thread registry, whoever ensures a scope first owns it [C-02]. */
export const claimAuthorizer: Authorizer = {
  access: async (principal, _scope, { owner, members }) => {
    if (owner === null) return 'claimable'
    // An operator is as good as the owner of everything in its tenant.
    if (owner === principal.id || principal.role === 'operator') return 'owner'
    return members.includes(principal.id) ? 'member' : 'denied'
  },
}

/** Release is for everyone on the thread, so it takes more than membership [C-54]. */
export const mayRelease = (principal: Principal, access: Access): boolean =>
  access === 'owner' || (access !== 'denied' && hasRight(principal, 'release'))
