import { BoxofficeError } from '@boxoffice/protocol'

export type Rate = { perSecond: number; burst: number }

const MAX_BUCKETS = 50_000

/** Token buckets, one per key (a principal, a tenant, an address) [C-58]. Memory is bounded: full buckets are forgotten. */
export class RateLimit {
  readonly #rate: Rate
  readonly #buckets = new Map<string, { tokens: number; at: number }>()

  constructor(rate: Rate) {
    this.#rate = rate
  }

  /** Takes one token; else the whole seconds until there is one. */
  take(key: string, now = performance.now()): { ok: true } | { ok: false; retryAfter: number } {
    const { perSecond, burst } = this.#rate
    const bucket = this.#buckets.get(key)
    const tokens = bucket === undefined ? burst : Math.min(burst, bucket.tokens + ((now - bucket.at) / 1000) * perSecond)
    if (tokens < 1) return { ok: false, retryAfter: Math.max(1, Math.ceil((1 - tokens) / perSecond)) }
    if (bucket === undefined && this.#buckets.size >= MAX_BUCKETS) this.#dropFull(now)
    this.#buckets.set(key, { tokens: tokens - 1, at: now })
    return { ok: true }
  }

  /** The same, as a refusal that names the limit. */
  require(key: string, limit: string): void {
    const taken = this.take(key)
    if (!taken.ok)
      throw new BoxofficeError('RATE_LIMITED', `too many requests: limit "${limit}"; try again in ${taken.retryAfter} s`, {
        retryAfter: taken.retryAfter,
        details: { limit },
      })
  }

  #dropFull(now: number): void {
    const refilled = (this.#rate.burst / this.#rate.perSecond) * 1000
    for (const [key, { at }] of this.#buckets) if (now - at >= refilled) this.#buckets.delete(key)
    if (this.#buckets.size >= MAX_BUCKETS) this.#buckets.clear()
  }
}
