import { backoffMs as doublingMs } from '@boxoffice/kit/backoff'
import { retry } from '@boxoffice/kit/retry'
import { type BoxofficeError, isCode, SilenceError } from '../base/errors.ts'
import { neverConnected } from './endpoints.ts'

/** How long a client tries to come back to a connection that dropped, by default. */
export const RECONNECT_WINDOW_MS = 30_000

const BACKOFF = { firstMs: 250, mostMs: 8_000 }

/** The wait before attempt `attempt` (0 first): 0.25 s doubling to 8 s, of which a random half is taken off so that clients spread. */
export const backoffMs = (attempt: number, random?: () => number): number => doublingMs(attempt + 1, BACKOFF, random)

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
export const retrying = <T>(work: () => Promise<T>, { windowMs, after = ALL, signal }: RetryOptions): Promise<T> => {
  let began = 0
  let failingSince: number | undefined
  let failures = 0
  let silences = 0
  const attempt = (): Promise<T> => {
    began = performance.now()
    return work()
  }
  const waitMs = (error: unknown): number | undefined => {
    if (error instanceof SilenceError && (error.final === true || (error.final === 'second' && ++silences > 1))) return undefined
    const now = performance.now()
    if (failingSince === undefined || (now - began > ESTABLISHED_MS && !neverConnected(error))) {
      failingSince = now
      failures = 0
    }
    // A sandbox that is gone goes by the name of a backend that is away, too.
    const code = isCode(error, 'SANDBOX_LOST') ? undefined : after.find((code) => isCode(error, code))
    const wait = code && waitFor(error as BoxofficeError, failures++)
    return wait === undefined || now + wait - failingSince > windowMs ? undefined : wait
  }
  return retry(attempt, { waitMs, signal })
}

const waitFor = (error: BoxofficeError, attempt: number): number =>
  error.retryAfter === undefined ? backoffMs(attempt) : error.retryAfter * 1000
