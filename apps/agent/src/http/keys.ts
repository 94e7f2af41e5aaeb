import { createPublicKey, type KeyObject } from 'node:crypto'
import { Jwks } from '@boxoffice/protocol'

/** Public keys of the broker by key id. */
export interface KeySource {
  /** The key, or undefined when the broker does not know it. At once (no promise) while the cache is fresh. */
  get(kid: string): KeyObject | undefined | Promise<KeyObject | undefined>
  /** Takes keys that came by another way, as in the answer to a registration. */
  seed(jwks: Jwks): void
}

export type KeySourceOptions = {
  /** Reads the JWKS from the broker. */
  load: () => Promise<Jwks>
  /** Monotonic milliseconds. */
  now?: () => number
}

const FRESH_MS = 300_000
const RELOAD_EVERY_MS = 30_000

/** Keys are kept for 300 s and read again at once for an unknown id, but at most every 30 s [C-49]. While the broker cannot be reached, the old ones hold. */
export const createKeySource = ({ load, now = () => performance.now() }: KeySourceOptions): KeySource => {
  let keys = new Map<string, KeyObject>()
  let loadedAt = Number.NEGATIVE_INFINITY
  let triedAt = Number.NEGATIVE_INFINITY
  let loading: Promise<void> | undefined

  const seed = (jwks: Jwks): void => {
    keys = new Map(
      Jwks.parse(jwks).keys.map((key) => [key.kid, createPublicKey({ key: { kty: key.kty, crv: key.crv, x: key.x }, format: 'jwk' })]),
    )
    loadedAt = now()
  }

  const reload = (): Promise<void> => {
    if (loading !== undefined) return loading
    if (now() - triedAt < RELOAD_EVERY_MS) return Promise.resolve()
    triedAt = now()
    loading = load()
      .then(seed)
      .catch(() => {})
      .finally(() => {
        loading = undefined
      })
    return loading
  }

  return {
    get: (kid) => {
      const key = keys.get(kid)
      if (key !== undefined && now() - loadedAt < FRESH_MS) return key
      return reload().then(() => keys.get(kid))
    },
    seed,
  }
}
