import { BoxofficeError, CLOCK_LEEWAY_SECONDS } from '@boxoffice/protocol'
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import type { OidcAlgorithm } from '../config/oidc.ts'
import type { KeyRight } from '../store/store.ts'
import type { Identity } from './principals.ts'
import type { RemoteKeys } from './remote-keys.ts'

/** Which claim says what. Who only knows a subject is a user without rights; the rest must be configured to count. */
export type ClaimNames = { principal: string; tenant?: string; role?: string; rights?: string; actorType?: string }

export type OidcOptions = {
  issuer: string
  audience: readonly string[]
  algorithms: readonly OidcAlgorithm[]
  claims: ClaimNames
  /** Of tokens when no claim names one. */
  tenant: string
  keys: RemoteKeys
  /** True for a `kid` of the broker's own keys: a session token is no server credential, whoever the issuer is [4-33]. */
  isOwnKey: (kid: string) => boolean
  now: () => number
}

const MAX_TOKEN_LENGTH = 8192
const RIGHTS: readonly KeyRight[] = ['act_as', 'release', 'box']
/** As for the names that come with API keys. */
const NAME = /^[\x20-\x7e\u00a0-\u{10ffff}]{1,128}$/u

/** Bearer tokens of an identity provider, beside API keys [contract 2.1]. */
export class OidcVerifier {
  readonly #options: OidcOptions

  constructor(options: OidcOptions) {
    this.#options = options
  }

  /** Whom the token stands for; 401 for one that does not hold, 503 when its keys cannot be had. */
  async verify(token: string): Promise<Identity> {
    const { issuer, audience, algorithms, keys, isOwnKey, now } = this.#options
    if (token.length > MAX_TOKEN_LENGTH) throw refused(`it has more than ${MAX_TOKEN_LENGTH} characters`)
    const { kid } = headerOf(token)
    if (kid === undefined) throw refused('its header has no kid')
    if (isOwnKey(kid)) throw new BoxofficeError('UNAUTHENTICATED', 'a session token is no server credential; send an API key')
    const { payload } = await jwtVerify(token, (header, input) => keys.find(header, input), {
      issuer,
      audience: [...audience],
      algorithms: [...algorithms],
      clockTolerance: CLOCK_LEEWAY_SECONDS,
      currentDate: new Date(now()),
      requiredClaims: ['exp'],
    }).catch((thrown: unknown) => {
      throw thrown instanceof BoxofficeError ? thrown : refused(reasonOf(thrown), thrown)
    })
    this.#requireInDate(payload)
    return this.#identity(payload)
  }

  /** The leeway is for clocks that run behind the issuer's; none for tokens that have run out [C-48]. */
  #requireInDate({ exp = 0, iat }: JWTPayload): void {
    const seconds = this.#options.now() / 1000
    if (exp <= seconds) throw refused('it has expired')
    if (iat !== undefined && iat > seconds + CLOCK_LEEWAY_SECONDS) throw refused('it is not valid yet')
  }

  #identity(payload: JWTPayload): Identity {
    const { claims, tenant } = this.#options
    const id = claimOf(payload, claims.principal)
    if (typeof id !== 'string' || !NAME.test(id)) throw refused(`its claim "${claims.principal}" must be a text of 1 to 128 characters`)
    const named = claims.tenant === undefined ? tenant : claimOf(payload, claims.tenant)
    // A token without its tenant is nobody's, not the default tenant's.
    if (typeof named !== 'string' || !NAME.test(named)) throw refused(`its claim "${claims.tenant}" must be a text of 1 to 128 characters`)
    const words = (name: string | undefined): string[] => (name === undefined ? [] : wordsOf(claimOf(payload, name)))
    const rights = words(claims.rights)
    return {
      id,
      tenant: named,
      role: words(claims.role).includes('operator') ? 'operator' : 'user',
      rights: new Set(RIGHTS.filter((right) => rights.includes(right))),
      actorType: words(claims.actorType).includes('agent') ? 'agent' : 'human',
      capabilities: null,
    }
  }
}

function headerOf(token: string): { kid?: string | undefined } {
  try {
    return decodeProtectedHeader(token)
  } catch (thrown) {
    throw refused('it is not a JWT', thrown)
  }
}

/** A claim by its name, which may hold dots; else along them, as in `realm_access.roles`. */
function claimOf(payload: JWTPayload, name: string): unknown {
  if (Object.hasOwn(payload, name)) return payload[name]
  let value: unknown = payload
  for (const part of name.split('.'))
    value = typeof value === 'object' && value !== null && Object.hasOwn(value, part) ? (value as Record<string, unknown>)[part] : undefined
  return value
}

/** A list, or one text with spaces between, as OAuth has its scopes. */
const wordsOf = (value: unknown): string[] =>
  typeof value === 'string' ? value.split(' ') : Array.isArray(value) ? value.filter((word) => typeof word === 'string') : []

function reasonOf(thrown: unknown): string {
  if (thrown instanceof errors.JWTExpired) return 'it has expired'
  if (thrown instanceof errors.JWTClaimValidationFailed)
    return thrown.claim === 'nbf' ? 'it is not valid yet' : `its claim "${thrown.claim}" is not what this broker accepts`
  if (thrown instanceof errors.JOSEAlgNotAllowed) return 'its algorithm is not allowed here'
  return 'its signature cannot be verified with the keys of the identity provider'
}

const refused = (reason: string, cause?: unknown): BoxofficeError =>
  new BoxofficeError('UNAUTHENTICATED', `the bearer token is refused: ${reason}`, cause === undefined ? {} : { cause })
