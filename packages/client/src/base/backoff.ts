import { type BoxofficeError, isCode, SilenceError } from './errors.ts'
import { sleep } from './signals.ts'
import { neverConnected } from './ways.ts'

/** How long a client tries to come back to a connection that dropped, by default. */
export const RECONNECT_WINDOW_MS = 30_000

const FIRST_MS = 250
const MOST_MS = 8_000

/** The wait before attempt `attempt` (0 first): 0.25 s doubling to 8 s, of which a random half is taken off so that clients spread. */
export const backoffMs = (attempt: number, random: () => number = Math.random): number =>
  Math.min(MOST_MS, FIRST_MS * 2 ** attempt) * (1 - random() / 2)

export type RetryOptions = {
  windowMs: number
  /** What to repeat after; default all. */
  after?: readonly RepeatableCode[]
  signal?: AbortSignal | undefined
}
type RepeatableCode = 'CONNECTION_FAILED' | 'SANDBOX_STARTING' | 'BACKEND_UNAVAILABLE' | 'RATE_LIMITED'
/** Through the relay, an agent that is away is a refusal and not a connection that fails. */
const ALL: readonly RepeatableCode[] = ['CONNECTION_FAILED', 'SANDBOX_STARTING', 'BACKEND_UNAVAILABLE']
/** For what waits its turn as well: of a sandbox's commands only so many run at once. */
export const ALSO_BUSY: readonly RepeatableCode[] = [...ALL, 'RATE_LIMITED']

/** An attempt that lasted this long had a connection: what follows is a new failure with a new window. */
const ESTABLISHED_MS = 2_000

/**
 * Repeats work that may be repeated (an idempotent request, or one with an id) while nobody answers or the sandbox is
 * starting, until `windowMs` have passed since it began to fail.
 */
export const retrying = async <T>(work: () => Promise<T>, { windowMs, after = ALL, signal }: RetryOptions): Promise<T> => {
  let failingSince: number | undefined
  for (let attempt = 0; ; attempt++) {
    const began = performance.now()
    try {
      return await work()
    } catch (error) {
      if (error instanceof SilenceError && error.final) throw error
      const now = performance.now()
      if (failingSince === undefined || (now - began > ESTABLISHED_MS && !neverConnected(error))) {
        failingSince = now
        attempt = 0
      }
      // A sandbox that is gone goes by the name of a backend that is away, too.
      const code = isCode(error, 'SANDBOX_LOST') ? undefined : after.find((code) => isCode(error, code))
      const wait = code && waitFor(error as BoxofficeError, attempt)
      if (wait === undefined || now + wait - failingSince > windowMs) throw error
      await sleep(wait, signal)
    }
  }
}

const waitFor = (error: BoxofficeError, attempt: number): number =>
  error.retryAfter === undefined ? backoffMs(attempt) : error.retryAfter * 1000
