import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { isCanonicalToken } from '@boxoffice/node-http'
import {
  AGENT_EXP_LEEWAY_SECONDS,
  BoxofficeError,
  CLOCK_LEEWAY_SECONDS,
  ControlTokenClaims,
  MAX_CONTROL_TOKEN_SECONDS,
  TOKEN_ALGORITHM,
} from '@boxoffice/protocol'
import { compactVerify, decodeProtectedHeader } from 'jose'
import type { KeySource } from './keys.ts'
import type { TokenBinding } from './token-binding.ts'

export type ControlAuthOptions = {
  keys: KeySource
  issuer: () => string | undefined
  /** The `aud` of tokens for this agent; undefined until it has registered. */
  agentId: () => string | undefined
  binding: TokenBinding
  /** Unix seconds by the broker's clock [C-77]. */
  now: () => number
}

/** Checks a control token: broker-signed, for this agent, good for at most a minute [C-79]. Throws UNAUTHENTICATED. */
export type VerifyControlToken = (token: string) => Promise<ControlTokenClaims>

const MAX_TOKEN_LENGTH = 4096
const MAX_CACHED = 100
const KNOWN_HEADERS = ['alg', 'kid', 'typ']

const refuse = (message: string, cause?: unknown): never => {
  throw new BoxofficeError('UNAUTHENTICATED', message, { cause })
}

export const createControlVerifier = ({ keys, issuer, agentId, binding, now }: ControlAuthOptions): VerifyControlToken => {
  /** Tokens whose signature has been checked; the broker uses one for as long as it lasts. */
  const verified = new BoundedCache<string, ControlTokenClaims>(MAX_CACHED)

  const check = (claims: ControlTokenClaims): ControlTokenClaims => {
    if (claims.iss !== issuer() || claims.aud !== agentId()) refuse('The control token is for another agent')
    if (!binding.admits(claims.cnf)) refuse('The control token is for an agent with another key')
    if (claims.exp - claims.iat > MAX_CONTROL_TOKEN_SECONDS) refuse('The control token lives too long')
    if (claims.iat > now() + CLOCK_LEEWAY_SECONDS) refuse('The control token is not valid yet')
    if (claims.exp + AGENT_EXP_LEEWAY_SECONDS <= now()) refuse('The control token has expired')
    return claims
  }

  return async (token) => {
    const known = verified.get(token)
    if (known !== undefined) return check(known)
    const claims = check(await readClaims(token, keys))
    verified.set(token, claims)
    return claims
  }
}

const readClaims = async (token: string, keys: KeySource): Promise<ControlTokenClaims> => {
  try {
    if (token.length > MAX_TOKEN_LENGTH || !isCanonicalToken(token)) throw new Error('too long, or not canonical')
    const header = decodeProtectedHeader(token)
    if (header.alg !== TOKEN_ALGORITHM || typeof header.kid !== 'string') throw new Error('algorithm or key id')
    if (Object.keys(header).some((name) => !KNOWN_HEADERS.includes(name))) throw new Error('unexpected header')
    const key = await keys.get(header.kid)
    if (key === undefined) throw new Error('unknown key')
    const { payload } = await compactVerify(token, key, { algorithms: [TOKEN_ALGORITHM] })
    return ControlTokenClaims.parse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload)))
  } catch (cause) {
    return refuse('The control token is not valid', cause)
  }
}
