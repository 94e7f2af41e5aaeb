import { BoxofficeError } from '@boxoffice/protocol'
import type { EventStore } from '../store/session-store.ts'

export interface Watcher {
  /** There may be more events of its session. Must not throw. */
  more(): void
  /** The broker goes down. */
  end(): void
}

/** One caller's share of the streams that a broker holds open at once, and all of them. */
const MOST_PER_PRINCIPAL = 1000
const MOST = 10_000

/** The streams that are open at this broker: tells them what the store says, limits how many there are, and ends them with it. */
export class EventFeed {
  readonly #store: EventStore
  /** How each of them leaves the store. */
  readonly #watchers = new Map<Watcher, () => void>()
  /** How many each principal has. */
  readonly #streams = new Map<string, number>()
  #closed = false

  constructor(store: EventStore) {
    this.#store = store
  }

  /** Calls `watcher` until the returned function is called. Throws RATE_LIMITED, or BACKEND_UNAVAILABLE when the broker ends. */
  watch(sessionId: string, principal: string, watcher: Watcher): () => void {
    if (this.#closed) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker is stopping; try again', { retryAfter: 1 })
    const own = this.#streams.get(principal) ?? 0
    if (own >= MOST_PER_PRINCIPAL || this.#watchers.size >= MOST)
      throw new BoxofficeError('RATE_LIMITED', 'too many event streams are open; close some', {
        retryAfter: 10,
        details: { limit: 'event_streams', max: MOST_PER_PRINCIPAL },
      })
    this.#watchers.set(
      watcher,
      this.#store.watch(sessionId, () => watcher.more()),
    )
    this.#streams.set(principal, own + 1)
    return () => this.#leave(principal, watcher)
  }

  close(): void {
    this.#closed = true
    for (const watcher of [...this.#watchers.keys()]) watcher.end()
  }

  #leave(principal: string, watcher: Watcher): void {
    const leave = this.#watchers.get(watcher)
    if (leave === undefined) return
    this.#watchers.delete(watcher)
    leave()
    const left = (this.#streams.get(principal) ?? 1) - 1
    if (left === 0) this.#streams.delete(principal)
    else this.#streams.set(principal, left)
  }
}
