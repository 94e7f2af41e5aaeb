import { createHash, randomUUID, sign } from 'node:crypto'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { keyThumbprint } from '@boxoffice/node-http'
import {
  type Capability,
  type ControlTokenClaims,
  MAX_CONTROL_TOKEN_SECONDS,
  newSandboxId,
  newSessionId,
  type PreviewTokenClaims,
  previewAudience,
  type SessionTokenClaims,
  TOKEN_ALGORITHM,
} from '@boxoffice/protocol'
import type { PlacedSession } from '../domain/session.ts'
import type { AgentRecord } from '../store/store.ts'
import type { SigningKeys } from './keys.ts'
import type { SigningKey } from './signing-key.ts'

/** `issuedAt` and `expiresAt` in whole Unix seconds; `hash` and `jti` are what the audit log keeps of the token. */
export type IssuedToken = {
  token: string
  jti: string
  issuedAt: number
  expiresAt: number
  hash: string
  capabilities: readonly Capability[]
}

const CONTROL_TOKEN_REUSE_MS = 30_000

/** Signs what agents believe: session tokens for clients [4-52], control tokens for the broker's own calls [C-79]. */
export class TokenIssuer {
  readonly #keys: Pick<SigningKeys, 'current'>
  readonly #now: () => number
  readonly #ttlSeconds: number
  readonly #control = new Map<string, { token: string; until: number; kid: string; publicKey: string | null }>()
  readonly #monotonic: () => number
  readonly #headers = new WeakMap<SigningKey, string>()
  /** `iss`; known once the broker listens. */
  issuer = ''

  constructor(
    keys: Pick<SigningKeys, 'current'>,
    ttlSeconds: number,
    now: () => number,
    monotonic: () => number = () => performance.now(),
  ) {
    this.#keys = keys
    this.#ttlSeconds = ttlSeconds
    this.#now = now
    this.#monotonic = monotonic
  }

  /** The key that signs now: what another one has signed is not used any longer. */
  get kid(): string {
    return this.#keys.current.kid
  }

  /**
   * A token for one session and one sandbox; never outlives the session [4-50, C-52]. `notBefore` (Unix seconds, at most seconds
   * ahead) dates it after the last narrowing of its actor's grant, which holds earlier ones.
   */
  session(session: PlacedSession, actor: string, capabilities: readonly Capability[], notBefore: number): IssuedToken {
    const iat = Math.max(Math.floor(this.#now() / 1000), notBefore)
    const exp = Math.min(iat + this.#ttlSeconds, Math.floor(session.hardExpiresAt / 1000))
    const claims: SessionTokenClaims = {
      iss: this.issuer,
      aud: session.sandboxId,
      sub: actor,
      sid: session.id,
      thread_id: session.scope.type === 'thread' ? session.scope.id : null,
      sandbox_id: session.sandboxId,
      tid: session.tenant,
      caps: [...capabilities],
      gen: session.incarnation,
      iat,
      exp,
      jti: randomUUID(),
      ver: 1,
    }
    const token = this.#sign(claims)
    return {
      token,
      jti: claims.jti,
      issuedAt: iat,
      expiresAt: exp,
      hash: createHash('sha256').update(token).digest('base64url'),
      capabilities,
    }
  }

  /**
   * What a browser shows on one preview host, until then (Unix milliseconds); only the agent with `publicKey` takes it. Never a session
   * token: its audience is no sandbox.
   */
  preview(
    session: PlacedSession,
    actor: string,
    hostname: string,
    { until, publicKey }: { until: number; publicKey: string | null },
  ): Omit<IssuedToken, 'capabilities'> {
    const iat = Math.floor(this.#now() / 1000)
    const claims: PreviewTokenClaims = {
      iss: this.issuer,
      aud: previewAudience(hostname),
      sub: actor,
      sid: session.id,
      sandbox_id: session.sandboxId,
      tid: session.tenant,
      gen: session.incarnation,
      iat,
      exp: Math.floor(until / 1000),
      jti: randomUUID(),
      ver: 1,
      ...confirmation(publicKey),
    }
    const token = this.#sign(claims)
    const hash = createHash('sha256').update(token).digest('base64url')
    return { token, jti: claims.jti, issuedAt: iat, expiresAt: claims.exp, hash }
  }

  /**
   * What the relay shows to an agent in the place of a client's token: another token with the same claims, so that it can do no more
   * and ends with it, also by a revocation of its id [C-30]. It must not be the same text, and equal claims would give that. An agent
   * with another key than `publicKey` refuses it.
   */
  reissue(claims: SessionTokenClaims, publicKey: string | null): string {
    return this.#sign({ ...claims, ...confirmation(publicKey), via: 'relay' })
  }

  /** For nothing but `GET D/ping`: no session and no sandbox has these ids, and it grants nothing. */
  probe(publicKey: string | null): { token: string; sandboxId: string } {
    const iat = Math.floor(this.#now() / 1000)
    const sandboxId = newSandboxId()
    const token = this.#sign({
      iss: this.issuer,
      aud: sandboxId,
      sub: 'broker',
      sid: newSessionId(),
      thread_id: null,
      sandbox_id: sandboxId,
      tid: 'default',
      caps: [],
      gen: 1,
      iat,
      exp: iat + MAX_CONTROL_TOKEN_SECONDS,
      jti: randomUUID(),
      ver: 1,
      via: 'relay',
      ...confirmation(publicKey),
    })
    return { token, sandboxId }
  }

  /** The broker's credential at one agent, reused for half of its life by the monotonic clock: the machine's may jump [C-77]. */
  control({ id, publicKey }: Pick<AgentRecord, 'id' | 'publicKey'>): string {
    const at = this.#monotonic()
    const cached = this.#control.get(id)
    if (cached !== undefined && cached.until > at && cached.kid === this.kid && cached.publicKey === publicKey) return cached.token
    const iat = Math.floor(this.#now() / 1000)
    const claims: ControlTokenClaims = {
      iss: this.issuer,
      aud: id,
      sub: 'broker',
      iat,
      exp: iat + MAX_CONTROL_TOKEN_SECONDS,
      jti: randomUUID(),
      ...confirmation(publicKey),
    }
    const token = this.#sign(claims)
    this.#control.set(id, { token, until: at + CONTROL_TOKEN_REUSE_MS, kid: this.kid, publicKey })
    return token
  }

  /** The agent has refused this token: the next call brings another one. */
  refused(agentId: string, token: string): void {
    if (this.#control.get(agentId)?.token === token) this.#control.delete(agentId)
  }

  /**
   * A compact JWS by node:crypto: every `ensure` signs one, and jose's SignJWT goes through WebCrypto's thread pool,
   * 135 µs against 40 µs here. Verification and key handling stay with jose.
   */
  #sign(claims: (SessionTokenClaims & { via?: 'relay' }) | ControlTokenClaims | PreviewTokenClaims): string {
    const key = this.#keys.current
    const input = `${this.#header(key)}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`
    return `${input}.${sign(null, Buffer.from(input), key.privateKey).toString('base64url')}`
  }

  #header(key: SigningKey): string {
    const known = this.#headers.get(key)
    if (known !== undefined) return known
    const header = Buffer.from(JSON.stringify({ alg: TOKEN_ALGORITHM, kid: key.kid, typ: 'JWT' })).toString('base64url')
    this.#headers.set(key, header)
    return header
  }
}

/** By key: relayed requests with a new token hash none. */
const confirmations = new BoundedCache<string, { cnf: { jkt: string } }>(1000)

function confirmation(publicKey: string | null): { cnf?: { jkt: string } } {
  if (publicKey === null) return {}
  return confirmations.getOrMake(publicKey, () => ({ cnf: { jkt: keyThumbprint(publicKey) } }))
}
