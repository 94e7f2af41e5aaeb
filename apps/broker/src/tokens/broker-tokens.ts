import { hkdfSync, randomUUID } from 'node:crypto'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { BoxofficeError } from '@boxoffice/protocol'
import { errors, jwtVerify, SignJWT } from 'jose'
import type { SecretKey, SecretKeys } from '../host/secret-keys.ts'

/** What a broker asks of another one; `sid`: the session that the caller of the first one may use. */
export type BrokerCall = { method: string; path: string; sid: string | null }

export type BrokerTokensOptions = {
  /** Those that the database's secrets are sealed under: all its brokers have the same. */
  secrets: SecretKeys
  brokerId: string
  now: () => number
}

const TYPE = 'boxoffice-broker+jwt'
const LIFETIME_SECONDS = 30
const TOLERANCE_SECONDS = 5
const MAX_SEEN = 100_000

/**
 * Tokens by which brokers of one database know each other's requests: HS256 under a key that is derived from the secret key, for one
 * broker, one request and 30 s, and good once.
 */
export class BrokerTokens {
  readonly #options: BrokerTokensOptions
  readonly #seen = new BoundedCache<string, number>(MAX_SEEN)

  constructor(options: BrokerTokensOptions) {
    this.#options = options
  }

  /** `to`: the id of the broker that is asked. */
  sign(to: string, { method, path, sid }: BrokerCall): Promise<string> {
    const { secrets, brokerId, now } = this.#options
    const seconds = Math.floor(now() / 1000)
    return new SignJWT({ htm: method, htu: path, sid })
      .setProtectedHeader({ alg: 'HS256', typ: TYPE, kid: secrets.first.id })
      .setIssuer(brokerId)
      .setAudience(to)
      .setJti(randomUUID())
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + LIFETIME_SECONDS)
      .sign(derived(secrets.first))
  }

  /** The session that the token is for. Throws UNAUTHENTICATED for one that is not for this broker and this request, or came before. */
  async verify(token: string, { method, path }: Omit<BrokerCall, 'sid'>): Promise<string | null> {
    const { secrets, brokerId, now } = this.#options
    try {
      const keyOf = ({ kid }: { kid?: string }): Uint8Array => {
        const key = kid === undefined ? undefined : secrets.find(kid)
        if (key === undefined) throw new errors.JWSSignatureVerificationFailed('no key of its id')
        return derived(key)
      }
      const { payload } = await jwtVerify(token, keyOf, {
        algorithms: ['HS256'],
        typ: TYPE,
        audience: brokerId,
        requiredClaims: ['iss', 'iat', 'exp', 'jti', 'htm', 'htu'],
        maxTokenAge: LIFETIME_SECONDS,
        clockTolerance: TOLERANCE_SECONDS,
        currentDate: new Date(now()),
      })
      const { jti = '', htm, htu, sid } = payload
      if (htm !== method || htu !== path) throw new errors.JWTClaimValidationFailed('it is for another request', payload)
      if (this.#seen.has(jti)) throw new errors.JWTClaimValidationFailed('it has been used', payload)
      this.#seen.set(jti, now())
      return typeof sid === 'string' ? sid : null
    } catch (cause) {
      throw new BoxofficeError('UNAUTHENTICATED', 'this route is for brokers of the same database and secret key', { cause })
    }
  }
}

const derived = ({ key }: SecretKey): Uint8Array => new Uint8Array(hkdfSync('sha256', key, '', 'boxoffice broker to broker', 32))
