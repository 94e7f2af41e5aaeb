import { BoxofficeError } from '@boxoffice/protocol'
import type { JWTPayload } from 'jose'
import type { OidcAlgorithm } from '../config/oidc.ts'
import type { KeyRight } from '../store/store.ts'
import type { RemoteKeys } from './jwt/remote-keys.ts'
import { RemoteTokens } from './jwt/remote-token.ts'
import type { Identity } from './principals.ts'

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

const RIGHTS: readonly KeyRight[] = ['act_as', 'release', 'box']
/** As for the names that come with API keys. */
const NAME = /^[\x20-\x7e\u00a0-\u{10ffff}]{1,128}$/u

/** Bearer tokens of an identity provider, beside API keys [contract 2.1]. */
export class OidcVerifier {
  readonly #options: OidcOptions
  readonly #tokens: RemoteTokens

  constructor(options: OidcOptions) {
    this.#options = options
    this.#tokens = new RemoteTokens({ ...options, name: 'the bearer token' })
  }

  /** Whom the token stands for; 401 for one that does not hold, 503 when its keys cannot be had. */
  async verify(token: string): Promise<Identity> {
    if (this.#options.isOwnKey(this.#tokens.kidOf(token)))
      throw new BoxofficeError('UNAUTHENTICATED', 'a session token is no server credential; send an API key')
    return this.#identity(await this.#tokens.verify(token))
  }

  #identity(payload: JWTPayload): Identity {
    const { claims, tenant } = this.#options
    const id = claimOf(payload, claims.principal)
    if (typeof id !== 'string' || !NAME.test(id))
      throw this.#tokens.refused(`its claim "${claims.principal}" must be a text of 1 to 128 characters`)
    const named = claims.tenant === undefined ? tenant : claimOf(payload, claims.tenant)
    // A token without its tenant is nobody's, not the default tenant's.
    if (typeof named !== 'string' || !NAME.test(named))
      throw this.#tokens.refused(`its claim "${claims.tenant}" must be a text of 1 to 128 characters`)
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
