import { BoxofficeError as SdkError } from '@boxoffice/client'
import { backoffMs } from '@boxoffice/kit/backoff'
import { retry } from '@boxoffice/kit/retry'

const BACKOFF = { firstMs: 250, mostMs: 4_000 }
/** Nobody answers, or what answers is about to. A sandbox that is gone has another code. */
const PASSES = new Set([
  'CONNECTION_FAILED',
  'BACKEND_UNAVAILABLE',
  'PROVIDER_UNAVAILABLE',
  'SANDBOX_STARTING',
  'AGENT_FULL',
  'RATE_LIMITED',
])

export type Patience = { windowMs: number; signal?: AbortSignal | undefined }

/** Repeats work that does no harm when it is repeated, for as long as what failed may pass, and `windowMs` at most. */
export const patiently = <T>(work: () => Promise<T>, { windowMs, signal }: Patience): Promise<T> => {
  const until = performance.now() + windowMs
  const waitMs = (error: unknown, failures: number): number | undefined => {
    if (!(error instanceof SdkError) || !PASSES.has(error.code)) return undefined
    const wait = error.retryAfter === undefined ? backoffMs(failures, BACKOFF) : error.retryAfter * 1000
    return performance.now() + wait > until ? undefined : wait
  }
  return retry(work, { waitMs, signal })
}
