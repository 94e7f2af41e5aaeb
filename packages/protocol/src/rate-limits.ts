import { z } from 'zod'
import { BoxofficeError } from './errors.ts'

/** A setting of broker and agent, in their own spelling: it is on no wire. */
export const Rate = z.strictObject({ perSecond: z.number().positive(), burst: z.number().int().min(1) })
export type Rate = z.infer<typeof Rate>

const MAX_BUCKETS = 50_000

/** Token buckets, one per key (a principal, a tenant, an address) [C-58]. Memory is bounded: full buckets are forgotten. */
export class RateLimit {
  readonly #rate: Rate
  readonly #now: () => number
  readonly #buckets = new Map<string, { tokens: number; at: number }>()

  /** `now` in milliseconds. */
  constructor(rate: Rate, now: () => number) {
    this.#rate = rate
    this.#now = now
  }

  /** Takes one token; else the whole seconds until there is one. */
  take(key: string): { ok: true } | { ok: false; retryAfter: number } {
    const { perSecond, burst } = this.#rate
    const now = this.#now()
    const bucket = this.#buckets.get(key)
    // A clock that was set back gives nothing, and takes nothing.
    const elapsed = bucket === undefined ? 0 : Math.max(0, now - bucket.at)
    const tokens = bucket === undefined ? burst : Math.min(burst, bucket.tokens + (elapsed / 1000) * perSecond)
    if (tokens < 1) return { ok: false, retryAfter: Math.max(1, Math.ceil((1 - tokens) / perSecond)) }
    if (bucket === undefined && this.#buckets.size >= MAX_BUCKETS) this.#dropFull(now)
    this.#buckets.set(key, { tokens: tokens - 1, at: now })
    return { ok: true }
  }

  /** The same, as a refusal that names the limit. */
  refusal(key: string, limit: string): BoxofficeError | undefined {
    const taken = this.take(key)
    if (taken.ok) return undefined
    return new BoxofficeError('RATE_LIMITED', `too many requests: limit "${limit}"; try again in ${taken.retryAfter} s`, {
      retryAfter: taken.retryAfter,
      details: { limit },
    })
  }

  require(key: string, limit: string): void {
    const refusal = this.refusal(key, limit)
    if (refusal !== undefined) throw refusal
  }

  #dropFull(now: number): void {
    const refilled = (this.#rate.burst / this.#rate.perSecond) * 1000
    for (const [key, { at }] of this.#buckets) if (now - at >= refilled) this.#buckets.delete(key)
    if (this.#buckets.size >= MAX_BUCKETS) this.#buckets.clear()
  }
}

/** One limit for each principal and one for its whole tenant; either may be off. */
export class PrincipalLimit {
  readonly #name: string
  readonly #principal: RateLimit | undefined
  readonly #tenant: RateLimit | undefined

  constructor(name: string, rates: { principal: Rate | undefined; tenant: Rate | undefined }, now: () => number) {
    this.#name = name
    this.#principal = rates.principal && new RateLimit(rates.principal, now)
    this.#tenant = rates.tenant && new RateLimit(rates.tenant, now)
  }

  /** Takes one of each; a principal that is over its own limit costs its tenant nothing. */
  refusal({ tenant, id }: { tenant: string; id: string }): BoxofficeError | undefined {
    return this.#principal?.refusal(JSON.stringify([tenant, id]), this.#name) ?? this.#tenant?.refusal(tenant, this.#name)
  }

  require(principal: { tenant: string; id: string }): void {
    const refusal = this.refusal(principal)
    if (refusal !== undefined) throw refusal
  }
}
