import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import type { ManagedProcess } from '@boxoffice/protocol'
import type { DataplaneClient } from '../../dataplane/client.ts'
import { isPlaced, type Session } from '../../domain/session.ts'

const MAX_SESSIONS = 10_000

/**
 * The managed processes of sessions. To ask the dataplane is to use a session, and who only looks must not keep it from its TTL: so
 * it is asked only where something runs or may have changed, and else what it said last is still true.
 */
export class ProcessRecords {
  readonly #dataplane: DataplaneClient
  readonly #known = new BoundedCache<string, readonly ManagedProcess[] | 'changed'>(MAX_SESSIONS)

  constructor(dataplane: DataplaneClient) {
    this.#dataplane = dataplane
  }

  /** Something was started or stopped. */
  changes(sessionId: string): void {
    this.#known.set(sessionId, 'changed')
  }

  forget(sessionId: string): void {
    this.#known.delete(sessionId)
  }

  async of(session: Session): Promise<readonly ManagedProcess[]> {
    const known = this.#known.get(session.id)
    if (!isPlaced(session) || (known === undefined && !session.busy)) return []
    if (known !== undefined && known !== 'changed' && !session.busy && known.every(({ status }) => status === 'exited')) return known
    const processes = await this.#dataplane.session(session.id).processes.list()
    this.changes(session.id)
    this.#known.set(session.id, processes)
    return processes
  }
}
