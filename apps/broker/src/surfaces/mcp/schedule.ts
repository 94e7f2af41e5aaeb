import { sleep } from '@boxoffice/kit/sleep'

/** Seconds before each retry [2-90]: attempts at 0, 2, 6 and 14. */
export const RETRY_DELAYS_SECONDS = [2, 4, 8] as const
export const ATTEMPTS = RETRY_DELAYS_SECONDS.length + 1

/** How often a running server is looked at [2-92]. */
export const HEALTH_POLL_MS = 5000
/** Between two tries of a handshake with a process that runs, and between two looks for a provider. */
export const COLD_START_RETRY_MS = 2000
/** One that ran for so long has all its retries again. */
export const STEADY_AFTER_MS = 60_000

/** How long to wait before the next attempt; null after the last one. `failed`: attempts so far. */
export const retryDelayMs = (failed: number): number | null => {
  const seconds = RETRY_DELAYS_SECONDS[failed - 1]
  return seconds === undefined ? null : seconds * 1000
}

export const lastFailure = (message: string): string => `Failed after ${ATTEMPTS} attempts: ${message}`

/** Time, as a runtime needs it; tests have one that they move. */
export interface Clock {
  now(): number
  /** Resolves early, without an error, when the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, signal).catch(() => {}),
}
