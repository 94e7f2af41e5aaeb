import { BoundedCache } from './bounded-cache.ts'

export type TokenRate = {
  /** Tokens that come in a second. */
  perSecond: number
  /** As many as a bucket holds; it is full at first. */
  burst: number
}

export type Taken = { ok: true } | { ok: false /** Whole seconds until there is a token. */; retryAfter: number }

/**
 * A rate limit: a token bucket for each key. Memory is bounded: of too many buckets the one that was asked the longest ago is
 * forgotten, and so is full again.
 */
export class TokenBuckets {
  readonly #rate: TokenRate
  readonly #now: () => number
  readonly #buckets: BoundedCache<string, { tokens: number; at: number }>

  /** `now` in milliseconds. */
  constructor(rate: TokenRate, now: () => number = () => performance.now(), maxKeys = 50_000) {
    this.#rate = rate
    this.#now = now
    this.#buckets = new BoundedCache(maxKeys)
  }

  /** Takes one token of the key's bucket, if it has one. `share`: the part of the rate that holds here; a bucket holds one at least. */
  take(key: string, share = 1): Taken {
    const perSecond = this.#rate.perSecond * share
    const burst = Math.max(1, this.#rate.burst * share)
    const now = this.#now()
    const bucket = this.#buckets.get(key)
    // A clock that was set back gives nothing, and takes nothing.
    const elapsed = bucket === undefined ? 0 : Math.max(0, now - bucket.at)
    const tokens = bucket === undefined ? burst : Math.min(burst, bucket.tokens + (elapsed / 1000) * perSecond)
    if (tokens < 1) return { ok: false, retryAfter: Math.max(1, Math.ceil((1 - tokens) / perSecond)) }
    this.#buckets.set(key, { tokens: tokens - 1, at: now })
    return { ok: true }
  }
}
