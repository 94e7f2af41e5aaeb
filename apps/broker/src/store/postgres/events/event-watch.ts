import { Watchers } from '../../watchers.ts'
import type { Database } from '../engine/database.ts'
import { EventNotices } from './event-notices.ts'

/** How often the sessions that are watched are looked at, for what no notice has told. */
const POLL_MS = 2000
/** Sessions that one query looks at. */
const MAX_LOOKED_AT = 1000

/**
 * Says which sessions have new events: at once for what this broker commits, by a notice for what another one does, and by a slow poll
 * for what a notice has not told, as of a broker that ended after its commit.
 */
export class EventWatch implements AsyncDisposable {
  readonly #database: Database
  readonly #watchers = new Watchers()
  /** The last event of each watched session, as the poll saw it. */
  readonly #seen = new Map<string, number>()
  readonly #notices: EventNotices
  readonly #pollMs: number
  readonly #off: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(database: Database, { pollMs = POLL_MS }: { pollMs?: number } = {}) {
    this.#database = database
    this.#pollMs = pollMs
    this.#notices = new EventNotices(database, {
      one: (sessionId) => this.#watchers.wake(sessionId),
      all: () => this.#watchers.wakeAll(),
    })
    this.#off = database.onAppended((sessionIds) => {
      this.#notices.tell(sessionIds)
      for (const sessionId of sessionIds) this.#watchers.wake(sessionId)
    })
  }

  /** As `EventStore.watch`. */
  watch(sessionId: string, more: () => void): () => void {
    const leave = this.#watchers.add(sessionId, more)
    this.#pollLater()
    return () => {
      leave()
      if (this.#watchers.isEmpty) this.#rest()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#off()
    this.#rest()
    await this.#notices[Symbol.asyncDispose]()
  }

  #rest(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#seen.clear()
  }

  #pollLater(): void {
    this.#timer ??= setTimeout(() => void this.#poll(), this.#pollMs)
  }

  async #poll(): Promise<void> {
    const timer = this.#timer
    const watched = this.#watchers.sessions()
    for (const sessionId of this.#seen.keys()) if (!this.#watchers.has(sessionId)) this.#seen.delete(sessionId)
    for (let i = 0; i < watched.length; i += MAX_LOOKED_AT) await this.#look(watched.slice(i, i + MAX_LOOKED_AT))
    // Nobody may have watched for a moment meanwhile, and somebody since.
    if (this.#timer !== timer) return
    this.#timer = undefined
    this.#pollLater()
  }

  async #look(sessionIds: readonly string[]): Promise<void> {
    // While the database is away there is nothing to tell; whoever watches is woken when it is back.
    const rows = await this.#database.read.rows<Seen>(SEQUENCES, [sessionIds]).catch((): Seen[] => [])
    for (const { id, event_seq: last } of rows) {
      // What is looked at for the first time may have changed since it is watched.
      const changed = this.#seen.get(id) !== last
      if (this.#watchers.has(id)) this.#seen.set(id, last)
      if (changed) this.#watchers.wake(id)
    }
  }
}

type Seen = { id: string; event_seq: number }
const SEQUENCES = 'SELECT id, event_seq FROM sessions WHERE id = ANY($1)'
