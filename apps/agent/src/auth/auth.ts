import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import {
  AGENT_EXP_LEEWAY_SECONDS,
  BoxofficeError,
  type Capability,
  CLOCK_LEEWAY_SECONDS,
  MAX_SESSION_TOKEN_SECONDS,
  PreviewTokenClaims,
  previewAudience,
  SessionTokenClaims,
} from '@boxoffice/protocol'
import type { z } from 'zod'
import { recoveringError } from '../sandbox/end.ts'
import type { Sandbox, SandboxDirectory } from '../sandbox/sandbox.ts'
import type { KeySource } from './keys.ts'
import type { RevocationStore } from './revocations.ts'
import { keyWithdrawn, unauthenticated, verifySignature } from './verify-signature.ts'

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
  /**
   * The same for the token of a preview's cookie, which is good on that host only. It grants `ports`, and `exec` so far as the loopback
   * of a sandbox without isolation needs it; both are narrowed like those of session tokens.
   */
  authenticatePreview(token: string, hostname: string): Promise<SessionTokenClaims>
  /** The part that changes while a token is in date: deny-list and expiry. Throws like `authenticate`. */
  recheck(claims: SessionTokenClaims): void
  /** What the token grants now: narrowed rights count at once, also for tokens that were issued before [C-57]. */
  granted(claims: SessionTokenClaims): readonly Capability[]
  /** Throws CAPABILITY_DENIED unless the token grants it now [C-39]. */
  require(claims: SessionTokenClaims, capability: Capability): void
  /** Whether there is a sandbox of this name, for who has no token yet. */
  exists(sandboxId: string): boolean
  /** The sandbox of an authenticated token; throws SANDBOX_LOST when it is not here, SESSION_EXPIRED for an earlier incarnation. */
  sandbox(claims: Pick<SessionTokenClaims, 'sandbox_id' | 'sid' | 'gen'>): Sandbox
}

type Dated = { iss: string; iat: number; exp: number; cnf?: { jkt: string } | undefined }

/** Whose token it is. */
export type Bearer = Pick<SessionTokenClaims, 'sid' | 'sub'>

const MAX_CACHED_TOKENS = 10_000

export const createAuthenticator = ({ keys, revocations, sandboxes, issuer, thumbprint, now }: AuthOptions): Authenticator => {
  /** Verified tokens by their text. Signature and claims of a token never change; everything else is checked again each time. */
  const verified = new BoundedCache<string, SessionTokenClaims>(MAX_CACHED_TOKENS)
  /** Those of previews, apart: the path of a request must not be able to name the host of one. */
  const verifiedPreviews = new BoundedCache<string, SessionTokenClaims>(MAX_CACHED_TOKENS)
  /** By which key they were verified. */
  const signedBy = new WeakMap<SessionTokenClaims, string>()
  keys.onWithdrawal(() => {
    for (const cache of [verified, verifiedPreviews]) for (const [token, claims] of [...cache]) if (isWithdrawn(claims)) cache.delete(token)
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

  /** Whatever its kind: who signed it, for which agent, and when it is good. */
  const verifyKind = async <T extends Dated>(token: string, kind: z.ZodType<T>): Promise<{ claims: T; kid: string }> => {
    const trusted = issuer()
    if (trusted === undefined) {
      throw new BoxofficeError('BACKEND_UNAVAILABLE', 'This agent has not registered with its broker yet; try again', { retryAfter: 2 })
    }
    const { payload, kid } = await verifySignature(token, keys)
    const parsed = kind.safeParse(payload)
    if (!parsed.success) throw unauthenticated('The session token lacks a claim')
    const { iss, iat, exp, cnf } = parsed.data
    if (iss !== trusted) throw unauthenticated('The session token is from another issuer')
    if (cnf !== undefined && cnf.jkt !== thumbprint) throw unauthenticated('The session token is for an agent with another key')
    if (exp - iat > MAX_SESSION_TOKEN_SECONDS) throw unauthenticated('The session token lives too long')
    const notBefore = typeof payload.nbf === 'number' ? Math.max(payload.nbf, iat) : iat
    if (notBefore > now() + CLOCK_LEEWAY_SECONDS) throw unauthenticated('The session token is not valid yet')
    return { claims: parsed.data, kid }
  }

  const verify = async (token: string): Promise<SessionTokenClaims> => {
    const { claims, kid } = await verifyKind(token, SessionTokenClaims)
    if (claims.aud !== claims.sandbox_id) throw unauthenticated('The session token contradicts itself')
    signedBy.set(claims, kid)
    verified.set(token, claims)
    return claims
  }

  const verifyPreview = async (token: string): Promise<SessionTokenClaims> => {
    const { claims: preview, kid } = await verifyKind(token, PreviewTokenClaims)
    const claims: SessionTokenClaims = { ...preview, thread_id: null, caps: ['ports', 'exec'] }
    signedBy.set(claims, kid)
    verifiedPreviews.set(token, claims)
    return claims
  }

  return {
    authenticate(token, sandboxId, renews) {
      const known = verified.get(token)
      if (known !== undefined) return authorize(known, sandboxId, renews)
      return verify(token).then((claims) => authorize(claims, sandboxId, renews))
    },
    async authenticatePreview(token, hostname) {
      return authorize(verifiedPreviews.get(token) ?? (await verifyPreview(token)), previewAudience(hostname), undefined)
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

const capabilityDenied = (capability: Capability): BoxofficeError =>
  new BoxofficeError(
    'CAPABILITY_DENIED',
    `${capability} not granted: this session token lacks the capability; negotiate for one that has it`,
    {
      details: { capability },
    },
  )
