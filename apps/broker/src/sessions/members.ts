import type { Authorizer } from '../access/authorizer.ts'
import type { Principal } from '../access/principals.ts'
import { auditEntry, type Origin } from '../domain/audit-entry.ts'
import { noSession, notTheOwner, requirePlaced } from '../domain/refusals.ts'
import { threadOf } from '../domain/scope.ts'
import { isLive, type LiveSession } from '../domain/session.ts'
import type { Store } from '../store/store.ts'
import type { SessionWriter } from './session-writer.ts'

export type MembersOptions = {
  store: Store
  writer: SessionWriter
  authorizer: Authorizer
  /** What the principal holds opens nothing any more, also tokens that are in date [C-57]. */
  withdraw: (session: LiveSession, principalId: string) => Promise<void>
  now: () => number
}

export type Membership = { owner: string; members: string[] }

/** Who else may use a scope, by the word of its owner or of an operator [C-01]. */
export class Members {
  readonly #options: MembersOptions

  constructor(options: MembersOptions) {
    this.#options = options
  }

  /** Replaces the members of a session's scope; for the session by its id. */
  async put(principal: Principal, sessionId: string, names: readonly string[], origin: Origin): Promise<Membership> {
    const { store, writer } = this.#options
    const found = await store.sessions.byId(sessionId)
    if (found === undefined || found.tenant !== principal.tenant) throw noSession()
    await this.#requireOwner(principal, found)
    const session = await writer.current(found)
    return this.set(principal, isLive(session) ? session : requirePlaced(session), names, origin)
  }

  /** The same for a session at hand. Whoever is left out has lost its access when this resolves. */
  async set(principal: Principal, session: LiveSession, names: readonly string[], origin: Origin): Promise<Membership> {
    const { store, now } = this.#options
    const { tenant, scope } = session
    const audit = auditEntry('sandbox.members.set', origin, { ts: now(), threadId: threadOf(scope), sessionId: session.id })
    for (;;) {
      const known = await this.#requireOwner(principal, session)
      const change = { tenant, scope, known, owner: principal.id, members: names, now: now() }
      const set = await store.scopes.setMembers(change, [audit])
      // The scope has come to somebody else since: decided anew.
      if (set === undefined) continue
      for (const removed of set.removed) await this.#options.withdraw(session, removed)
      return { owner: set.owner, members: names.filter((name) => name !== set.owner) }
    }
  }

  /** Gives whose the scope is; 403 unless the caller is as good as that. */
  async #requireOwner(principal: Principal, { tenant, scope }: Pick<LiveSession, 'tenant' | 'scope'>): Promise<string | null> {
    const { store, authorizer } = this.#options
    const ownership = await store.scopes.ownership(tenant, scope)
    const { access } = await authorizer.access(principal, scope, ownership, 'members')
    if (access !== 'owner') throw notTheOwner(scope)
    return ownership.owner
  }
}
