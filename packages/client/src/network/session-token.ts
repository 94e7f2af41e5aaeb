import type { RefreshResponse } from '@boxoffice/protocol'

/** Where a token is renewed: after this part of its lifetime. */
const RENEW_AT = 0.8
/** Timers may fire a little early. */
const SLACK_MS = 10

export type IssuedToken = { token: string; expires_at: string }

export type SessionToken = {
  readonly expiresAt: Date
  /** The token for a new request: renewed first when 80 % of its lifetime are over. */
  current(): Promise<string>
  /** A token that is not `rejected`. */
  renew(rejected?: string): Promise<string>
  /** Milliseconds until the present token should be renewed; 0 when it should be already. */
  renewInMs(): number
}

/**
 * Keeps the session's token in date. However many ask at once, one request goes out. Times are taken from the token's own
 * lifetime and a monotonic clock, so that a wrong clock on this machine changes nothing.
 */
export const createSessionToken = (issued: IssuedToken, renewal: () => Promise<RefreshResponse>): SessionToken => {
  let held = hold(issued)
  let renewing: Promise<string> | undefined

  const renew = (rejected: string = held.token): Promise<string> => {
    if (held.token !== rejected) return Promise.resolve(held.token)
    renewing ??= renewal()
      .then((fresh) => {
        held = hold(fresh)
        return held.token
      })
      .finally(() => {
        renewing = undefined
      })
    return renewing
  }

  const renewInMs = () => Math.max(0, held.renewAt - performance.now())

  return {
    get expiresAt() {
      return new Date(held.expiresAt)
    },
    renew,
    renewInMs,
    async current() {
      if (renewInMs() > SLACK_MS) return held.token
      const { token, endsAt } = held
      try {
        return await renew(token)
      } catch (error) {
        // The broker may be away for a moment; what is still in date goes on working.
        if (performance.now() < endsAt) return token
        throw error
      }
    },
  }
}

type HeldToken = { token: string; expiresAt: string; renewAt: number; endsAt: number }

const hold = ({ token, expires_at }: IssuedToken): HeldToken => {
  const left = Date.parse(expires_at) - Date.now()
  const lifetime = lifetimeMs(token) ?? left
  // A token that was handed on (bootstrap) has lived for a while: whichever is sooner.
  const usable = left > 0 ? Math.min(left, lifetime) : lifetime
  const now = performance.now()
  return { token, expiresAt: expires_at, renewAt: now + usable * RENEW_AT, endsAt: now + usable }
}

/** `exp − iat` of a JWT, read without checking anything; undefined for a token of another kind. */
const lifetimeMs = (token: string): number | undefined => {
  try {
    const claims: unknown = JSON.parse(atob((token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')))
    const { exp, iat } = claims as { exp?: unknown; iat?: unknown }
    return typeof exp === 'number' && typeof iat === 'number' && exp > iat ? (exp - iat) * 1000 : undefined
  } catch {
    return undefined
  }
}
