import { SilenceError } from './errors.ts'
import { anySignal } from './signals.ts'
import { Watchdog } from './watchdog.ts'

const ASK_AFTER_MS = 2_500
const ASK_EVERY_MS = 4_000
/** Without a sign of life for so long work is begun again, on another connection. */
const SILENT_MS = 10_000
/** After so long it is given up. */
const GIVE_UP_MS = 20_000
/** The same, where the server answers but has nothing of the work. */
const MISSED_MS = 60_000
/** What is left of a second try at least, however long it took to find the way for it. */
const LEAST_MS = 2_000

/** `going`: the work goes on. `answered`: somebody is there, who has none of it to do (yet, or any more). */
export type Sign = 'going' | 'answered'

export type Watch = {
  /** Aborts when the connection is taken for dead. */
  signal: AbortSignal
  /** Something of the answer has come. */
  heard(): void
}

/**
 * One piece of work that may last for minutes without a byte, over connections that may die without a word: a network that
 * drops packets says nothing. So it is asked about by another connection after 2.5 s, and every 4 s then. Without a sign of life
 * for 10 s an attempt ends with `SilenceError`; the second one in a row is `final`.
 */
export class Liveness {
  readonly #ask: (signal: AbortSignal) => Promise<Sign>
  #lastSign = performance.now()
  #silentBefore = false

  /** Rejects when there is no answer. */
  constructor(ask: (signal: AbortSignal) => Promise<Sign>) {
    this.#ask = ask
  }

  /** One attempt. */
  async watch<T>(work: (watch: Watch) => Promise<T>, caller: AbortSignal | undefined): Promise<T> {
    const over = new AbortController()
    const signal = anySignal(caller, over.signal) ?? over.signal
    if (!this.#silentBefore) this.#lastSign = performance.now()
    let answered = false
    const silent = (): void => {
      const silentMs = performance.now() - this.#lastSign
      const final = this.#silentBefore && (!answered || silentMs >= MISSED_MS)
      this.#silentBefore = true
      over.abort(new SilenceError(silentMs, { final, certain: !answered }))
    }
    const left = this.#silentBefore ? GIVE_UP_MS - (performance.now() - this.#lastSign) : SILENT_MS
    const watchdog = new Watchdog(silent, Math.min(SILENT_MS, Math.max(LEAST_MS, left)))
    const heard = (): void => {
      this.#lastSign = performance.now()
      this.#silentBefore = false
      watchdog.heard(SILENT_MS)
    }
    const question = (): void => {
      asking = setTimeout(question, ASK_EVERY_MS)
      const within = AbortSignal.any([over.signal, AbortSignal.timeout(ASK_EVERY_MS)])
      this.#ask(within).then(
        (sign) => {
          answered = true
          if (sign === 'going' && !over.signal.aborted) heard()
        },
        // No answer is no sign; what the work itself says decides.
        () => {},
      )
    }
    let asking = setTimeout(question, ASK_AFTER_MS)
    try {
      // Also what the signal does not reach, as the renewal of a token, must not outlast it.
      return await Promise.race([work({ signal, heard }), aborted(over.signal)])
    } finally {
      clearTimeout(asking)
      watchdog.stop()
      over.abort()
    }
  }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
