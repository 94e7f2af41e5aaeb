import type { Logger } from 'pino'

/** How many connections of one sandbox may be without an accepted hello. */
const MAX_UNPROVEN = 16
const LOG_EVERY_MS = 1000

type Refusable = { refuse(why: string): void }

/**
 * The connections to one sandbox's link that have not said a valid hello. Every process of the sandbox may dial, and each dial
 * costs the agent a descriptor: above the bound the oldest is closed. The supervisor says its hello with its dial, so it is read
 * before others can push it out. Refusals are logged at most once a second, with how many were not.
 */
export class UnprovenConnections {
  readonly #log: Logger
  readonly #connections = new Set<Refusable>()
  #loggedAt = Number.NEGATIVE_INFINITY
  #unlogged = 0

  constructor(log: Logger) {
    this.#log = log
  }

  add(connection: Refusable): void {
    this.#connections.add(connection)
    if (this.#connections.size <= MAX_UNPROVEN) return
    const [oldest] = this.#connections
    oldest?.refuse('too many connections without a hello')
  }

  /** It has been proven, or it is closed. */
  delete(connection: Refusable): void {
    this.#connections.delete(connection)
  }

  logRefusal(why: string): void {
    const now = performance.now()
    if (now - this.#loggedAt < LOG_EVERY_MS) {
      this.#unlogged++
      return
    }
    this.#log.warn({ why, unlogged: this.#unlogged }, 'supervisor connection refused')
    this.#loggedAt = now
    this.#unlogged = 0
  }
}
