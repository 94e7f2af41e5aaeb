import { sleep } from './sleep.ts'

export type RetryOptions = {
  /**
   * How many milliseconds to wait after the failure with this number (1 is the first) before the work is done again. Undefined where
   * it is not to be done again: the failure is thrown then. It may throw what is to be thrown in its place.
   */
  waitMs: (error: unknown, failures: number) => number | undefined
  /** Ends a wait: its reason is thrown. An attempt under way is the business of the work. */
  signal?: AbortSignal | undefined
}

/** Does work that may be repeated until it succeeds, or `waitMs` says that it will not. */
export async function retry<T>(work: () => T | PromiseLike<T>, { waitMs, signal }: RetryOptions): Promise<T> {
  for (let failures = 1; ; failures++) {
    let wait: number | undefined
    try {
      return await work()
    } catch (error) {
      wait = waitMs(error, failures)
      if (wait === undefined) throw error
    }
    await sleep(wait, signal)
  }
}
