import { setTimeout as delay } from 'node:timers/promises'

/** What `work` gives, or undefined after `ms`; the work goes on then. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  const timer = new AbortController()
  const late = delay(Math.max(0, ms), undefined, { signal: timer.signal }).catch(() => undefined)
  try {
    return await Promise.race([work, late])
  } finally {
    timer.abort()
  }
}
