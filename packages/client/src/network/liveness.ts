import { SilenceError } from '../base/errors.ts'
import { anySignal } from '../base/signals.ts'
import { Watchdog } from './watchdog.ts'

const ASK_AFTER_MS = 2_500
const ASK_EVERY_MS = 4_000
/** Without a sign of life for so long work is begun again, on another connection. */
export const SILENT_MS = 10_000
/** After two silences it is given up, and after this where the server answers but has nothing of the work. */
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
  readonly #silentMs: number
  #lastSign = performance.now()
  #silentBefore = false

  /** `ask` rejects when there is no answer. */
  constructor(ask: (signal: AbortSignal) => Promise<Sign>, silentMs: number) {
    this.#ask = ask
    this.#silentMs = silentMs
  }

  /** One attempt. */
  async watch<T>(work: (watch: Watch) => Promise<T>, caller: AbortSignal | undefined): Promise<T> {
    const over = new AbortController()
    const questions = new AbortController()
    const most = this.#silentMs
    const askEveryMs = Math.min(ASK_EVERY_MS, most / 2.5)
    const signal = anySignal(caller, over.signal) ?? over.signal
    if (!this.#silentBefore) this.#lastSign = performance.now()
    let answered = false
    const silent = (): void => {
      const silentMs = performance.now() - this.#lastSign
      const final = this.#silentBefore && (!answered || silentMs >= Math.max(MISSED_MS, 2 * most))
      this.#silentBefore = true
      over.abort(new SilenceError(silentMs, { final, certain: !answered }))
    }
    const left = this.#silentBefore ? 2 * most - (performance.now() - this.#lastSign) : most
    const watchdog = new Watchdog(silent, Math.min(most, Math.max(LEAST_MS, left)))
    const heard = (): void => {
      this.#lastSign = performance.now()
      this.#silentBefore = false
      watchdog.heard(most)
    }
    const question = (): void => {
      asking = setTimeout(question, askEveryMs)
      const within = AbortSignal.any([questions.signal, AbortSignal.timeout(askEveryMs)])
      this.#ask(within).then(
        (sign) => {
          answered = true
          if (sign === 'going' && !questions.signal.aborted) heard()
        },
        // No answer is no sign; what the work itself says decides.
        () => {},
      )
    }
    let asking = setTimeout(question, Math.min(ASK_AFTER_MS, most / 4))
    try {
      // Also what the signal does not reach, as the renewal of a token, must not outlast it.
      return await Promise.race([work({ signal, heard }), aborted(over.signal)])
    } catch (error) {
      over.abort(error)
      throw error
    } finally {
      clearTimeout(asking)
      watchdog.stop()
      questions.abort()
    }
  }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))

/** How long a server that answers other requests may take for one, before a byte of its answer. */
const PATIENCE_MS = 240_000

export type AliveOptions = {
  /** Asks for anything, on a connection of its own; rejects where nobody is there. */
  ask: (signal: AbortSignal) => Promise<unknown>
  silentMs: number
  /** What the work may take beyond the usual, as for sending a long body. */
  moreMs?: number
  signal: AbortSignal | undefined
}

/** Work that ends with `SilenceError` when its server gives no sign of life, on this connection or another, for `silentMs`. It may be tried once more. */
export const whileAlive = async <T>(
  work: (signal: AbortSignal) => Promise<T>,
  { ask, silentMs, moreMs = 0, signal }: AliveOptions,
): Promise<T> => {
  const began = performance.now()
  const sign = async (asking: AbortSignal): Promise<Sign> => {
    await ask(asking)
    return performance.now() - began < PATIENCE_MS + moreMs ? 'going' : 'answered'
  }
  try {
    return await new Liveness(sign, silentMs).watch((watch) => work(watch.signal), signal)
  } catch (error) {
    throw error instanceof SilenceError ? new SilenceError(silentMs, { final: 'second', certain: error.certain }) : error
  }
}
