import { createPublicKey, type KeyObject } from 'node:crypto'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { Jwks } from '@boxoffice/protocol'

/** Public keys of the broker by key id. */
export interface KeySource {
  /** The key, or undefined when the broker does not know it. At once (no promise) while the cache is fresh. */
  get(kid: string): KeyObject | undefined | Promise<KeyObject | undefined>
  /** Whether the key is one of the present ones; asks nobody. */
  has(kid: string): boolean
  /** Whether it was one of them and has been withdrawn. */
  wasWithdrawn(kid: string): boolean
  /** Takes all keys as they came by another way, as in the answer to a report; those that are not among them count no more. */
  seed(jwks: Jwks): void
  /** Grows with each set of keys that comes: a response that was asked for before another set came must not undo it. */
  readonly version: number
  /** Called when a key has been withdrawn. Returns a function that takes the listener off again. */
  onWithdrawal(listener: () => void): () => void
}

export type KeySourceOptions = {
  /** Reads the JWKS from the broker. */
  load: () => Promise<Jwks>
  /** Monotonic milliseconds. */
  now?: () => number
}

const FRESH_MS = 300_000
const RELOAD_EVERY_MS = 30_000
const MAX_WITHDRAWN = 1000

/** Keys are kept for 300 s and read again at once for an unknown id, but at most every 30 s [C-49]. While the broker cannot be reached, the old ones hold. */
export const createKeySource = ({ load, now = () => performance.now() }: KeySourceOptions): KeySource => {
  let keys = new Map<string, KeyObject>()
  let content = ''
  let loadedAt = Number.NEGATIVE_INFINITY
  let triedAt = Number.NEGATIVE_INFINITY
  let loading: Promise<void> | undefined
  let version = 0
  const withdrawn = new BoundedCache<string, true>(MAX_WITHDRAWN)
  const listeners = new Set<() => void>()

  const seed = (jwks: Jwks): void => {
    const parsed = Jwks.parse(jwks).keys
    version++
    loadedAt = now()
    const text = JSON.stringify(parsed)
    if (text === content) return
    content = text
    const before = keys
    keys = new Map(parsed.map((key) => [key.kid, createPublicKey({ key: { kty: key.kty, crv: key.crv, x: key.x }, format: 'jwk' })]))
    for (const kid of keys.keys()) withdrawn.delete(kid)
    const gone = [...before.keys()].filter((kid) => !keys.has(kid))
    for (const kid of gone) withdrawn.set(kid, true)
    if (gone.length > 0) for (const listener of [...listeners]) listener()
  }

  const reload = (): Promise<void> => {
    if (loading !== undefined) return loading
    if (now() - triedAt < RELOAD_EVERY_MS) return Promise.resolve()
    triedAt = now()
    const before = version
    loading = load()
      .then((jwks) => {
        if (version === before) seed(jwks)
      })
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
    has: (kid) => keys.has(kid),
    wasWithdrawn: (kid) => withdrawn.has(kid),
    seed,
    get version() {
      return version
    },
    onWithdrawal(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
