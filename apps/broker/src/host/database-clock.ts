import type { Log } from './log.ts'

export type DatabaseClockOptions = {
  /** Unix milliseconds, as the database has them. */
  database: { now(): Promise<number> }
  log: Log
  local?: () => number
  /** Milliseconds that never jump. */
  monotonic?: () => number
  intervalMs?: number
}

const ROUND_TRIPS = 5
/** Above this the machines' clocks are worth a look: tokens are dated by them. */
const DRIFT_MS = 1000

/**
 * The database's time without a round trip: the machine's clock and how far it is from the database's, measured at the start and each
 * minute by the shortest of several round trips. Brokers on several machines compare one another's times by it [C-77]. A distance
 * within the uncertainty of its measurement counts as none, so a broker beside its database has its machine's clock.
 */
export class DatabaseClock implements Disposable {
  readonly #options: Required<DatabaseClockOptions>
  #offsetMs = 0
  #warnedOf = 0
  #timer: NodeJS.Timeout | undefined

  private constructor({ local = Date.now, monotonic = () => performance.now(), intervalMs = 60_000, ...options }: DatabaseClockOptions) {
    this.#options = { ...options, local, monotonic, intervalMs }
  }

  /** Measures once, then each minute until it is disposed of. Throws what the database throws; later it keeps what it measured last. */
  static async start(options: DatabaseClockOptions): Promise<DatabaseClock> {
    const clock = new DatabaseClock(options)
    await clock.#measure()
    clock.#timer = setInterval(() => void clock.#measure().catch(() => {}), clock.#options.intervalMs).unref()
    return clock
  }

  /** Unix milliseconds, whole ones. */
  readonly now = (): number => this.#options.local() + this.#offsetMs;

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  async #measure(): Promise<void> {
    const { database, local, monotonic, log } = this.#options
    let best = { tripMs: Number.POSITIVE_INFINITY, offsetMs: this.#offsetMs }
    for (let trip = 0; trip < ROUND_TRIPS; trip++) {
      const [localBefore, before] = [local(), monotonic()]
      const there = await database.now()
      const tripMs = monotonic() - before
      if (tripMs < best.tripMs) best = { tripMs, offsetMs: there - (localBefore + tripMs / 2) }
    }
    const uncertainMs = best.tripMs / 2 + 1
    this.#offsetMs = Math.abs(best.offsetMs) <= uncertainMs ? 0 : Math.round(best.offsetMs)
    if (Math.abs(this.#offsetMs) <= DRIFT_MS) this.#warnedOf = 0
    // Once, and again when it has moved as far once more.
    else if (Math.abs(this.#offsetMs - this.#warnedOf) > DRIFT_MS) {
      this.#warnedOf = this.#offsetMs
      log.warn({ drift_ms: this.#offsetMs }, "this machine's clock is not the database's; the broker goes by the database's")
    }
  }
}
