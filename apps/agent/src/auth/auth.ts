import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { isCanonicalToken } from '@boxoffice/node-http'
import {
  AGENT_EXP_LEEWAY_SECONDS,
  BoxofficeError,
  type Capability,
  CLOCK_LEEWAY_SECONDS,
  MAX_SESSION_TOKEN_SECONDS,
  SessionTokenClaims,
  TOKEN_ALGORITHM,
} from '@boxoffice/protocol'
import { compactVerify, decodeProtectedHeader } from 'jose'
import { recoveringError } from '../sandbox/end.ts'
import type { Sandbox, SandboxDirectory } from '../sandbox/sandbox.ts'
import type { KeySource } from './keys.ts'
import type { RevocationStore } from './revocations.ts'

export type AuthOptions = {
  keys: KeySource
  revocations: RevocationStore
  sandboxes: SandboxDirectory
  /** The `iss` of the broker's tokens; undefined until the agent has registered. */
  issuer: () => string | undefined
  /** Of this agent's key: a relayed token for another one is refused. */
  thumbprint: string
  /** Unix seconds by the broker's clock [C-77]. */
  now: () => number
}

/** Who may do what where, checked at every request and at each frame that starts work (contract 9). */
export interface Authenticator {
  /**
   * Verifies a token for the sandbox in the URL; on a socket that has been authenticated, also that it is the same session and
   * actor (`renews`). At once (no promise) when the token has been seen before.
   */
  authenticate(token: string, sandboxId: string, renews?: Bearer): SessionTokenClaims | Promise<SessionTokenClaims>
  /** The part that changes while a token is in date: deny-list and expiry. Throws like `authenticate`. */
  recheck(claims: SessionTokenClaims): void
  /** What the token grants now: narrowed rights count at once, also for tokens that were issued before [C-57]. */
  granted(claims: SessionTokenClaims): readonly Capability[]
  /** Throws CAPABILITY_DENIED unless the token grants it now [C-39]. */
  require(claims: SessionTokenClaims, capability: Capability): void
  /** Whether there is a sandbox of this name, for who has no token yet. */
  exists(sandboxId: string): boolean
  /** The sandbox of an authenticated token; throws SANDBOX_LOST when it is not here, SESSION_EXPIRED for an earlier incarnation. */
  sandbox(claims: SessionTokenClaims): Sandbox
}

/** Whose token it is. */
export type Bearer = Pick<SessionTokenClaims, 'sid' | 'sub'>

const MAX_CACHED_TOKENS = 10_000
const MAX_TOKEN_LENGTH = 8192

const unauthenticated = (message: string): BoxofficeError => new BoxofficeError('UNAUTHENTICATED', message)

export const createAuthenticator = ({ keys, revocations, sandboxes, issuer, thumbprint, now }: AuthOptions): Authenticator => {
  /** Verified tokens by their text. Signature and claims of a token never change; everything else is checked again each time. */
  const verified = new BoundedCache<string, SessionTokenClaims>(MAX_CACHED_TOKENS)
  /** By which key they were verified. */
  const signedBy = new WeakMap<SessionTokenClaims, string>()
  keys.onWithdrawal(() => {
    for (const [token, claims] of [...verified]) if (isWithdrawn(claims)) verified.delete(token)
  })

  const isWithdrawn = (claims: SessionTokenClaims): boolean => {
    const kid = signedBy.get(claims)
    return kid !== undefined && !keys.has(kid)
  }

  const recheck = (claims: SessionTokenClaims): void => {
    if (isWithdrawn(claims)) throw keyWithdrawn()
    const ended = revocations.deniedSession(claims.sid)
    if (claims.exp + AGENT_EXP_LEEWAY_SECONDS <= now())
      throw new BoxofficeError('TOKEN_EXPIRED', 'The session token has expired; refresh it')
    if (ended === 'failed') throw new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again')
    if (ended !== undefined)
      throw new BoxofficeError('SESSION_RELEASED', 'The session of this token has ended; negotiate again', { details: { reason: ended } })
    if (revocations.deniedToken(claims.jti)) throw unauthenticated('The session token was revoked; refresh it')
    if (claims.iat < revocations.minimumIssuedAt(claims.sandbox_id)) throw unauthenticated('The session token was revoked; refresh it')
  }

  const authorize = (claims: SessionTokenClaims, sandboxId: string, renews: Bearer | undefined): SessionTokenClaims => {
    // First: on a socket, whatever else is true of another one's token, it is no credential [C-38].
    if (renews !== undefined && (claims.sid !== renews.sid || claims.sub !== renews.sub))
      throw unauthenticated('This token is for another session or actor than the one that opened the socket; open another socket')
    recheck(claims)
    if (claims.aud !== sandboxId) throw new BoxofficeError('FORBIDDEN', 'The session token is for another sandbox')
    return claims
  }

  const verify = async (token: string): Promise<SessionTokenClaims> => {
    const trusted = issuer()
    if (trusted === undefined) {
      throw new BoxofficeError('BACKEND_UNAVAILABLE', 'This agent has not registered with its broker yet; try again', { retryAfter: 2 })
    }
    const { payload, kid } = await verifySignature(token, keys)
    const claims = SessionTokenClaims.safeParse(payload)
    if (!claims.success) throw unauthenticated('The session token lacks a claim')
    const { iss, iat, exp, aud, sandbox_id, cnf } = claims.data
    if (iss !== trusted) throw unauthenticated('The session token is from another issuer')
    if (cnf !== undefined && cnf.jkt !== thumbprint) throw unauthenticated('The session token is for an agent with another key')
    if (aud !== sandbox_id) throw unauthenticated('The session token contradicts itself')
    if (exp - iat > MAX_SESSION_TOKEN_SECONDS) throw unauthenticated('The session token lives too long')
    const notBefore = typeof payload.nbf === 'number' ? Math.max(payload.nbf, iat) : iat
    if (notBefore > now() + CLOCK_LEEWAY_SECONDS) throw unauthenticated('The session token is not valid yet')
    signedBy.set(claims.data, kid)
    verified.set(token, claims.data)
    return claims.data
  }

  return {
    authenticate(token, sandboxId, renews) {
      const known = verified.get(token)
      if (known !== undefined) return authorize(known, sandboxId, renews)
      return verify(token).then((claims) => authorize(claims, sandboxId, renews))
    },
    recheck,
    granted: (claims) => revocations.granted(claims),
    require(claims, capability) {
      if (!revocations.granted(claims).includes(capability)) throw capabilityDenied(capability)
    },
    exists: (sandboxId) => sandboxes.get(sandboxId) !== undefined || sandboxes.isAwaited(sandboxId),
    sandbox(claims) {
      const sandbox = sandboxes.get(claims.sandbox_id)
      if (sandbox === undefined && sandboxes.isAwaited(claims.sandbox_id)) throw recoveringError()
      if (sandbox === undefined) throw new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again')
      if (sandbox.sessionId !== claims.sid) throw new BoxofficeError('FORBIDDEN', 'The session token is for another session')
      if (sandbox.generation !== claims.gen) {
        throw new BoxofficeError('SESSION_EXPIRED', 'The session token is for an earlier incarnation of the sandbox; refresh it', {
          details: { reason: 'incarnation' },
        })
      }
      return sandbox
    },
  }
}

/** Headers by which a token could bring its own key, or change how it is read, are refused, whatever they say [4-53]. */
const FORBIDDEN_HEADERS = ['jku', 'x5u', 'jwk', 'x5c', 'crit', 'b64', 'zip'] as const

type Verified = { payload: Record<string, unknown>; kid: string }

const verifySignature = async (token: string, keys: KeySource): Promise<Verified> => {
  if (token.length > MAX_TOKEN_LENGTH || !isCanonicalToken(token)) throw unauthenticated('The session token is not valid')
  let header: ReturnType<typeof decodeProtectedHeader>
  try {
    header = decodeProtectedHeader(token)
  } catch (cause) {
    throw new BoxofficeError('UNAUTHENTICATED', 'The session token is not valid', { cause })
  }
  if (header.alg !== TOKEN_ALGORITHM || typeof header.kid !== 'string' || FORBIDDEN_HEADERS.some((name) => name in header)) {
    throw unauthenticated('The session token is not valid')
  }
  const { kid } = header
  const key = await keys.get(kid)
  if (key === undefined && keys.wasWithdrawn(kid)) throw keyWithdrawn()
  if (key === undefined) throw unauthenticated('The session token is signed with an unknown key')
  try {
    const { payload } = await compactVerify(token, key, { algorithms: [TOKEN_ALGORITHM] })
    const claims: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload))
    if (typeof claims === 'object' && claims !== null) return { payload: claims as Record<string, unknown>, kid }
  } catch (cause) {
    throw new BoxofficeError('UNAUTHENTICATED', 'The session token is not valid', { cause })
  }
  throw unauthenticated('The session token is not valid')
}

const KEY_WITHDRAWN = 'key_withdrawn'

/** To its owner a token whose key has leaked is as one that has run out: another one is to be had [C-49]. */
const keyWithdrawn = (): BoxofficeError =>
  new BoxofficeError('TOKEN_EXPIRED', 'The key that signed the session token has been withdrawn; refresh it', {
    details: { reason: KEY_WITHDRAWN },
  })

/** Whether an error is nothing to what is open already: expiry has its own time there [C-27], the end of a key has not. */
export const isPlainExpiry = (error: BoxofficeError): boolean => error.code === 'TOKEN_EXPIRED' && error.details?.reason !== KEY_WITHDRAWN

const capabilityDenied = (capability: Capability): BoxofficeError =>
  new BoxofficeError(
    'CAPABILITY_DENIED',
    `${capability} not granted: this session token lacks the capability; negotiate for one that has it`,
    {
      details: { capability },
    },
  )
