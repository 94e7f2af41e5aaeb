import { BoxofficeError } from '@boxoffice/protocol'
import {
  type CompactJWSHeaderParameters,
  type CryptoKey,
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JSONWebKeySet,
} from 'jose'

const CACHE_MS = 300_000
/** An unknown `kid` may be a new key, or anybody's invention: it makes us look again at most this often. */
const COOLDOWN_MS = 30_000
/** Requests that come while the keys cannot be had are refused for so long without another attempt. */
const FAILURE_MS = 2000

type Keys = ReturnType<typeof createLocalJWKSet>

/** Gives the text of a JWKS. */
export type ReadKeys = () => Promise<string>

/** The keys of a JWKS that changes. Aged by a monotonic clock, and read through the guarded call; jose's own reader knows neither. */
export class RemoteKeys {
  /** Whose keys they are, for messages. */
  readonly whose: string
  readonly #readKeys: ReadKeys
  readonly #monotonic: () => number
  #keys: { find: Keys; loadedAt: number } | undefined
  #failed: { at: number; error: BoxofficeError } | undefined
  #loading: Promise<Keys> | undefined

  constructor(whose: string, readKeys: ReadKeys, monotonic: () => number) {
    this.whose = whose
    this.#readKeys = readKeys
    this.#monotonic = monotonic
  }

  /** The key of a token's header; 503 when the keys cannot be had, `JWKSNoMatchingKey` for one that is not there. */
  async find(header: CompactJWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey> {
    const keys = this.#isYounger(CACHE_MS) ? this.#keys?.find : undefined
    try {
      return await (keys ?? (await this.#load()))(header, token)
    } catch (thrown) {
      if (!(thrown instanceof errors.JWKSNoMatchingKey) || this.#isYounger(COOLDOWN_MS)) throw thrown
      return (await this.#load())(header, token)
    }
  }

  #isYounger(ms: number): boolean {
    return this.#keys !== undefined && this.#monotonic() - this.#keys.loadedAt < ms
  }

  #load(): Promise<Keys> {
    if (this.#failed !== undefined && this.#monotonic() - this.#failed.at < FAILURE_MS) throw this.#failed.error
    this.#loading ??= this.#read().finally(() => {
      this.#loading = undefined
    })
    return this.#loading
  }

  async #read(): Promise<Keys> {
    try {
      const find = createLocalJWKSet(JSON.parse(await this.#readKeys()) as JSONWebKeySet)
      this.#keys = { find, loadedAt: this.#monotonic() }
      this.#failed = undefined
      return find
    } catch (thrown) {
      const error = new BoxofficeError('BACKEND_UNAVAILABLE', `the keys of ${this.whose} could not be read; try again`, {
        retryAfter: 2,
        cause: thrown,
      })
      this.#failed = { at: this.#monotonic(), error }
      throw error
    }
  }
}
