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
/** The machine's clock has jumped, rather than slewed, when it has moved by so much against the monotonic one. */
const JUMP_MS = 500

/**
 * The database's time without a round trip: how far it is from this process's monotonic clock, measured at the start and each minute by
 * the shortest of several round trips. Brokers on several machines compare one another's times by it [C-77]. A jump of the machine's
 * clock changes nothing; it makes the next measurement come at once, as a machine that was suspended has a monotonic clock that was
 * stopped. A distance to the machine's clock within the uncertainty of a measurement counts as none, so a broker beside its database
 * has its machine's clock.
 */
export class DatabaseClock implements Disposable {
  readonly #options: Required<DatabaseClockOptions>
  /** Of the database, and of the machine: Unix milliseconds at the zero of the monotonic clock. */
  #epoch = 0
  #localEpoch = 0
  #measuring: Promise<void> | undefined
  #warnedOf = 0
  #timer: NodeJS.Timeout | undefined

  private constructor({ local = Date.now, monotonic = () => performance.now(), intervalMs = 60_000, ...options }: DatabaseClockOptions) {
    this.#options = { ...options, local, monotonic, intervalMs }
  }

  /** Measures once, then each minute until it is disposed of. Throws what the database throws; later it keeps what it measured last. */
  static async start(options: DatabaseClockOptions): Promise<DatabaseClock> {
    const clock = new DatabaseClock(options)
    await clock.#measure()
    clock.#timer = setInterval(() => clock.#measureSoon(), clock.#options.intervalMs).unref()
    return clock
  }

  /** Unix milliseconds, whole ones. */
  readonly now = (): number => {
    const { local, monotonic } = this.#options
    const at = monotonic()
    if (Math.abs(local() - at - this.#localEpoch) > JUMP_MS) this.#measureSoon()
    return Math.round(this.#epoch + at)
  };

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #measureSoon(): void {
    this.#measuring ??= this.#measure()
      .catch(() => {})
      .finally(() => {
        this.#measuring = undefined
      })
  }

  async #measure(): Promise<void> {
    const { database, local, monotonic, log } = this.#options
    let best = { tripMs: Number.POSITIVE_INFINITY, epoch: this.#epoch, localEpoch: this.#localEpoch }
    for (let trip = 0; trip < ROUND_TRIPS; trip++) {
      const [localBefore, before] = [local(), monotonic()]
      const there = await database.now()
      const tripMs = monotonic() - before
      if (tripMs < best.tripMs) best = { tripMs, epoch: there - (before + tripMs / 2), localEpoch: localBefore - before }
    }
    const uncertainMs = best.tripMs / 2 + 1
    const driftMs = best.epoch - best.localEpoch
    this.#localEpoch = best.localEpoch
    this.#epoch = Math.abs(driftMs) <= uncertainMs ? best.localEpoch : best.epoch
    if (Math.abs(driftMs) <= DRIFT_MS) this.#warnedOf = 0
    // Once, and again when it has moved as far once more.
    else if (Math.abs(driftMs - this.#warnedOf) > DRIFT_MS) {
      this.#warnedOf = driftMs
      log.warn({ drift_ms: Math.round(driftMs) }, "this machine's clock is not the database's; the broker goes by the database's")
    }
  }
}
