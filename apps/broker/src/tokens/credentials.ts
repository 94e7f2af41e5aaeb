import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { AGENT_EXP_LEEWAY_SECONDS, BoxofficeError, type SessionTokenClaims } from '@boxoffice/protocol'
import type { TokenIssuer } from './issuer.ts'
import type { SigningKeys } from './keys.ts'
import { keyWithdrawn, type VerifySessionToken } from './verifier.ts'

/** A client's verified token, and what the broker shows in its place to the agent with this key. */
export type Credential = { claims: SessionTokenClaims; upstreamToken: (publicKey: string | null) => string }

export type CredentialsOptions = {
  verify: VerifySessionToken
  keys: Pick<SigningKeys, 'has'>
  issuer: Pick<TokenIssuer, 'reissue'>
  now: () => number
}

/** `kid`: the key that signed the client's token. */
type Known = Credential & { kid: string }

const MAX_CACHED = 10_000

/** Session tokens as clients bring them, each verified once and exchanged for one of the broker's own; never sent on. */
export class Credentials {
  readonly #options: CredentialsOptions
  readonly #known = new BoundedCache<string, Known>(MAX_CACHED)

  constructor(options: CredentialsOptions) {
    this.#options = options
  }

  /** Throws `UNAUTHENTICATED`, or `TOKEN_EXPIRED` with the leeway of the dataplane [C-48]. */
  async check(token: string): Promise<Credential> {
    const credential = this.#known.get(token) ?? (await this.#exchange(token))
    if (!this.#options.keys.has(credential.kid)) {
      this.#known.delete(token)
      throw keyWithdrawn()
    }
    if (credential.claims.exp + AGENT_EXP_LEEWAY_SECONDS <= this.#options.now() / 1000)
      throw new BoxofficeError('TOKEN_EXPIRED', 'the session token has expired; refresh it')
    return credential
  }

  async #exchange(token: string): Promise<Known> {
    const { verify, issuer } = this.#options
    const { claims, kid } = await verify(token)
    const credential = { claims, kid, upstreamToken: signedOnce((publicKey) => issuer.reissue(claims, publicKey)) }
    this.#known.set(token, credential)
    return credential
  }
}

/** The last one is kept: a session's agent has one key, until an operator has it forgotten. */
function signedOnce(reissue: (publicKey: string | null) => string): Credential['upstreamToken'] {
  let last: { publicKey: string | null; token: string } | undefined
  return (publicKey) => {
    if (last?.publicKey !== publicKey || last === undefined) last = { publicKey, token: reissue(publicKey) }
    return last.token
  }
}

export const unauthenticated = (message: string): BoxofficeError => new BoxofficeError('UNAUTHENTICATED', message)
