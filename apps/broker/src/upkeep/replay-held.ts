import { auditEntry, systemOrigin } from '../domain/audit-entry.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { SessionWriter } from '../sessions/session-writer.ts'
import type { Store } from '../store/store.ts'

/** Makes the revocations once more that an earlier broker could not write before it ended; before anybody is let in. */
export async function replayRevocations(store: Store): Promise<void> {
  for (const change of store.held.entries()) {
    if (change.kind === 'release') continue
    const { kind, id, at } = change
    const audit = [auditEntry(`${kind}.revoke`, systemOrigin(null), { ts: at, data: { id } })]
    await (kind === 'key' ? store.keys : store.enrollTokens).revoke(id, at, audit)
    store.held.written(change)
  }
}

/** The same for releases, which tell agents what has ended. */
export async function replayReleases({ store, writer, now }: { store: Store; writer: SessionWriter; now: () => number }): Promise<void> {
  for (const change of store.held.entries()) {
    if (change.kind !== 'release') continue
    const session = await store.sessions.byId(change.id)
    if (session !== undefined)
      await writer.change(
        session,
        { type: 'released', keepWorkspace: change.keepWorkspace },
        { audit: (after) => [sessionEntry('sandbox.session.release', systemOrigin(after.tenant), after, { ts: now() })] },
      )
    store.held.written(change)
  }
}
