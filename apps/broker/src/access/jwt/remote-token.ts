import { BoxofficeError, CLOCK_LEEWAY_SECONDS } from '@boxoffice/protocol'
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import type { RemoteKeys } from './remote-keys.ts'

export type RemoteTokenOptions = {
  issuer: string
  audience: readonly string[]
  algorithms: readonly string[]
  keys: RemoteKeys
  now: () => number
  /** What messages call the token. */
  name: string
}

const MAX_TOKEN_LENGTH = 8192

/** Tokens that somebody else signs, and whose keys the broker reads. */
export class RemoteTokens {
  readonly #options: RemoteTokenOptions

  constructor(options: RemoteTokenOptions) {
    this.#options = options
  }

  /** The `kid` of the token's header, of which nothing is verified yet; 401 when it has none. */
  kidOf(token: string): string {
    if (token.length > MAX_TOKEN_LENGTH) throw this.refused(`it has more than ${MAX_TOKEN_LENGTH} characters`)
    const { kid } = this.#headerOf(token)
    if (kid === undefined) throw this.refused('its header has no kid')
    return kid
  }

  /** The claims of a token that holds now; 401 for one that does not, 503 when its keys cannot be had. */
  async verify(token: string): Promise<JWTPayload> {
    const { issuer, audience, algorithms, keys, now } = this.#options
    this.kidOf(token)
    const { payload } = await jwtVerify(token, (header, input) => keys.find(header, input), {
      issuer,
      audience: [...audience],
      algorithms: [...algorithms],
      clockTolerance: CLOCK_LEEWAY_SECONDS,
      currentDate: new Date(now()),
      requiredClaims: ['exp'],
    }).catch((thrown: unknown) => {
      throw thrown instanceof BoxofficeError ? thrown : this.refused(reasonOf(thrown, keys.whose), thrown)
    })
    this.#requireInDate(payload)
    return payload
  }

  /** The leeway is for clocks that run behind the issuer's; none for tokens that have run out [C-48]. */
  #requireInDate({ exp = 0, iat }: JWTPayload): void {
    const seconds = this.#options.now() / 1000
    if (exp <= seconds) throw this.refused('it has expired')
    if (iat !== undefined && iat > seconds + CLOCK_LEEWAY_SECONDS) throw this.refused('it is not valid yet')
  }

  #headerOf(token: string): { kid?: string | undefined } {
    try {
      return decodeProtectedHeader(token)
    } catch (thrown) {
      throw this.refused('it is not a JWT', thrown)
    }
  }

  refused(reason: string, cause?: unknown): BoxofficeError {
    return new BoxofficeError('UNAUTHENTICATED', `${this.#options.name} is refused: ${reason}`, cause === undefined ? {} : { cause })
  }
}

function reasonOf(thrown: unknown, whose: string): string {
  if (thrown instanceof errors.JWTExpired) return 'it has expired'
  if (thrown instanceof errors.JWTClaimValidationFailed)
    return thrown.claim === 'nbf' ? 'it is not valid yet' : `its claim "${thrown.claim}" is not what this broker accepts`
  if (thrown instanceof errors.JOSEAlgNotAllowed) return 'its algorithm is not allowed here'
  return `its signature cannot be verified with the keys of ${whose}`
}
