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

/**
 * Tells open streams that there is something to read: at once for what this broker writes, and within `pollMs` for what another
 * broker of the same database does. Nothing is asked while nobody watches.
 */
export class EventFeed {
  readonly #store: EventStore
  readonly #pollMs: number
  readonly #watchers = new Map<string, Set<Watcher>>()
  readonly #streams = new Map<string, number>()
  readonly #off: () => void
  #open = 0
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(store: EventStore, pollMs: number) {
    this.#store = store
    this.#pollMs = pollMs
    this.#off = store.onAppended((sessionId) => {
      for (const watcher of this.#watchers.get(sessionId) ?? []) watcher.more()
    })
  }

  /** Calls `watcher` until the returned function is called. Throws RATE_LIMITED, or BACKEND_UNAVAILABLE when the broker ends. */
  watch(sessionId: string, principal: string, watcher: Watcher): () => void {
    if (this.#closed) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker is stopping; try again', { retryAfter: 1 })
    const own = this.#streams.get(principal) ?? 0
    if (own >= MOST_PER_PRINCIPAL || this.#open >= MOST)
      throw new BoxofficeError('RATE_LIMITED', 'too many event streams are open; close some', {
        retryAfter: 10,
        details: { limit: 'event_streams', max: MOST_PER_PRINCIPAL },
      })
    const watchers = this.#watchers.get(sessionId) ?? new Set()
    this.#watchers.set(sessionId, watchers.add(watcher))
    this.#streams.set(principal, own + 1)
    this.#open++
    this.#timer ??= setInterval(() => void this.#poll(), this.#pollMs)
    return () => this.#leave(sessionId, principal, watcher)
  }

  close(): void {
    this.#closed = true
    this.#off()
    for (const watcher of this.#all()) watcher.end()
  }

  #leave(sessionId: string, principal: string, watcher: Watcher): void {
    const watchers = this.#watchers.get(sessionId)
    if (!watchers?.delete(watcher)) return
    if (watchers.size === 0) this.#watchers.delete(sessionId)
    const left = (this.#streams.get(principal) ?? 1) - 1
    if (left === 0) this.#streams.delete(principal)
    else this.#streams.set(principal, left)
    if (--this.#open > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #poll(): Promise<void> {
    if (await this.#store.changedElsewhere().catch(() => true)) for (const watcher of this.#all()) watcher.more()
  }

  #all(): Watcher[] {
    return [...this.#watchers.values()].flatMap((watchers) => [...watchers])
  }
}
