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
  /** Null: to be asked again. */
  readonly #known = new Map<string, readonly ManagedProcess[] | null>()

  constructor(dataplane: DataplaneClient) {
    this.#dataplane = dataplane
  }

  /** Something was started or stopped. */
  changes(sessionId: string): void {
    if (this.#known.size >= MAX_SESSIONS) this.#known.clear()
    this.#known.set(sessionId, null)
  }

  forget(sessionId: string): void {
    this.#known.delete(sessionId)
  }

  async of(session: Session): Promise<readonly ManagedProcess[]> {
    const known = this.#known.get(session.id)
    if (!isPlaced(session) || (known === undefined && !session.busy)) return []
    if (known && !session.busy && known.every(({ status }) => status === 'exited')) return known
    const processes = await this.#dataplane.session(session.id).processes.list()
    this.changes(session.id)
    this.#known.set(session.id, processes)
    return processes
  }
}
