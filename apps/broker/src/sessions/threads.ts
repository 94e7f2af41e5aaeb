import { BoxofficeError } from '@boxoffice/protocol'
import type { Authorizer } from '../access/authorizer.ts'
import type { Principal } from '../access/principals.ts'
import { auditEntry, type Origin } from '../domain/audit-entry.ts'
import { noSession } from '../domain/refusals.ts'
import { threadScope } from '../domain/scope.ts'
import type { LiveSession } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { Store } from '../store/store.ts'
import type { SessionWriter } from './session-writer.ts'

export type ThreadsOptions = {
  store: Store
  writer: SessionWriter
  authorizer: Authorizer
  /** Nobody waits any longer for a sandbox that is being made. */
  cancel: (sessionId: string) => void
  now: () => number
}

/** Threads that are deleted where they live: here too nothing of them is left, and somebody else may use the id [C-74]. */
export class Threads {
  readonly #options: ThreadsOptions

  constructor(options: ThreadsOptions) {
    this.#options = options
  }

  /**
   * Ends the session, then forgets owner, members and workspace in one step; by the owner or an operator. A session that a
   * member has made between the two is ended as well: nobody's scope never has a live one.
   */
  async delete(principal: Principal, threadId: string, origin: Origin): Promise<void> {
    const { store, authorizer, now } = this.#options
    const scope = threadScope(threadId)
    const { tenant } = principal
    for (;;) {
      const ownership = await store.scopes.ownership(tenant, scope)
      const live = await store.sessions.live(tenant, scope)
      if (ownership.owner === null && live === undefined) throw noSession('nothing is known of this thread')
      const { access } = await authorizer.access(principal, scope, ownership, 'release')
      if (access !== 'owner') throw new BoxofficeError('FORBIDDEN', 'deleting a thread takes its owner or an operator')
      if (live !== undefined) await this.#end(live, origin)
      const audit = auditEntry('sandbox.thread.delete', origin, { ts: now(), threadId })
      if ((await store.sessions.forgetScope(tenant, scope, ownership.owner, [audit])) === 'forgotten') return
    }
  }

  async #end(live: LiveSession, origin: Origin): Promise<void> {
    const { writer, cancel, now } = this.#options
    const audit = () => [sessionEntry('sandbox.session.release', origin, live, { ts: now() })]
    const { refused } = await writer.change(live, { type: 'released', keepWorkspace: false }, { audit })
    if (refused === undefined) cancel(live.id)
  }
}
