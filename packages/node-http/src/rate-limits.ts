import { TokenBuckets } from '@boxoffice/kit/token-buckets'
import { BoxofficeError } from '@boxoffice/protocol'
import { z } from 'zod'

/** A setting of broker and agent, in their own spelling. */
export const Rate = z.strictObject({ perSecond: z.number().positive(), burst: z.number().int().min(1) })
export type Rate = z.infer<typeof Rate>

/** The part of a rate that holds in this process, where several serve together: 1 / their number. */
export type Share = () => number

/** Token buckets, one per key (a principal, a tenant, an address), whose refusal names the limit [C-58]. */
export class RateLimit {
  readonly #buckets: TokenBuckets
  readonly #share: Share

  /** `now` in milliseconds. */
  constructor(rate: Rate, now: () => number, share: Share = whole) {
    this.#buckets = new TokenBuckets(rate, now)
    this.#share = share
  }

  /** Takes one token; else the refusal. */
  refusal(key: string, limit: string): BoxofficeError | undefined {
    const taken = this.#buckets.take(key, this.#share())
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
}

/** One limit for each principal and one for its whole tenant; either may be off. */
export class PrincipalLimit {
  readonly #name: string
  readonly #principal: RateLimit | undefined
  readonly #tenant: RateLimit | undefined

  constructor(name: string, rates: { principal: Rate | undefined; tenant: Rate | undefined }, now: () => number, share: Share = whole) {
    this.#name = name
    this.#principal = rates.principal && new RateLimit(rates.principal, now, share)
    this.#tenant = rates.tenant && new RateLimit(rates.tenant, now, share)
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

const whole: Share = () => 1
