import { CAPABILITIES, type Capability, type Scope } from '@boxoffice/protocol'
import type { Ownership } from '../store/session-store.ts'
import { hasRight, type Principal } from './principals.ts'

/**
 * What a principal is to a scope. `claimable`: nobody owns it yet, so its first `ensure` makes this principal the owner.
 */
export type Access = 'owner' | 'member' | 'claimable' | 'denied'

/** What for: the mode of a negotiate, or for a session that exists; `use` is to read, refresh, heartbeat, follow it. */
export type AccessMode = 'get' | 'ensure' | 'create_only' | 'use' | 'release' | 'members'

/** `capabilities` bounds what tokens may carry; never more than profile and key allow. */
export type Decision = { access: Access; capabilities: readonly Capability[] }

/** Decides who may use a scope [C-01]. Fails closed: 503 when who should know cannot be asked. */
export interface Authorizer {
  access(principal: Principal, scope: Scope, ownership: Ownership, mode: AccessMode): Promise<Decision>
}

export const decision = (access: Access, capabilities: readonly Capability[] = CAPABILITIES): Decision => ({ access, capabilities })

const OWNER = decision('owner')
const MEMBER = decision('member')
const CLAIMABLE = decision('claimable')
const DENIED = decision('denied')

export const creates = (mode: AccessMode): boolean => mode === 'ensure' || mode === 'create_only'

/** The default: there is no thread registry, whoever ensures a scope first owns it [C-02]. */
export const claimAuthorizer: Authorizer = {
  access: async (principal, _scope, { owner, members }, mode) => {
    // An operator is as good as the owner of everything in its tenant; what it makes itself it owns like everybody.
    const isOperator = principal.role === 'operator'
    if (owner === null) return isOperator && !creates(mode) ? OWNER : CLAIMABLE
    if (owner === principal.id || isOperator) return OWNER
    return members.includes(principal.id) ? MEMBER : DENIED
  },
}

/** Release is for everyone on the thread, so it takes more than membership [C-54]. */
export const mayRelease = (principal: Principal, access: Access): boolean =>
  access === 'owner' || (access !== 'denied' && hasRight(principal, 'release'))
