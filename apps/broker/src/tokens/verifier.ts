import { createPublicKey, type KeyObject } from 'node:crypto'
import { isCanonicalToken } from '@boxoffice/node-http'
import { BoxofficeError, CLOCK_LEEWAY_SECONDS, MAX_SESSION_TOKEN_SECONDS, SessionTokenClaims, TOKEN_ALGORITHM } from '@boxoffice/protocol'
import { compactVerify, decodeProtectedHeader } from 'jose'
import type { SigningKeys } from './keys.ts'

export type VerifierOptions = {
  keys: Pick<SigningKeys, 'jwks' | 'reload' | 'wasWithdrawn'>
  /** The `iss` of this deployment's tokens. */
  issuer: () => string
  /** Milliseconds. */
  now: () => number
}

/** Checks what never changes of a session token: signature, issuer, shape. Expiry and the session's state are the caller's to check. */
export type VerifySessionToken = (token: string) => Promise<{ claims: SessionTokenClaims; kid: string }>

const MAX_TOKEN_LENGTH = 8192
/** A key that another broker on the directory has made is looked for once in this time, however many unknown ids come. */
const RELOAD_EVERY_MS = 1000

/** Headers by which a token could bring its own key, or change how it is read, are refused, whatever they say [4-53]. */
const FORBIDDEN_HEADERS = ['jku', 'x5u', 'jwk', 'x5c', 'crit', 'b64', 'zip'] as const

/** Verifies session tokens with the broker's own keys, as agents do with the published ones. Throws `UNAUTHENTICATED`; `TOKEN_EXPIRED` when the key has been withdrawn. */
export function sessionTokenVerifier({ keys, issuer, now }: VerifierOptions): VerifySessionToken {
  const known = new Map<string, KeyObject>()
  let reloadedAt = Number.NEGATIVE_INFINITY

  const find = (kid: string): KeyObject | undefined => {
    const jwk = keys.jwks.keys.find((key) => key.kid === kid)
    if (jwk === undefined) return undefined
    const key = known.get(kid) ?? createPublicKey({ key: { kty: jwk.kty, crv: jwk.crv, x: jwk.x }, format: 'jwk' })
    known.set(kid, key)
    return key
  }

  const keyOf = async (kid: string): Promise<KeyObject | undefined> => {
    const key = find(kid)
    if (key !== undefined || performance.now() - reloadedAt < RELOAD_EVERY_MS) return key
    reloadedAt = performance.now()
    await keys.reload()
    return find(kid)
  }

  return async (token) => {
    const { payload, kid } = await verified(token, keyOf, (kid) => keys.wasWithdrawn(kid))
    const claims = SessionTokenClaims.safeParse(payload)
    if (!claims.success) throw unauthenticated('the session token lacks a claim')
    const { iss, iat, exp, aud, sandbox_id } = claims.data
    if (iss !== issuer()) throw unauthenticated('the session token is from another issuer')
    if (aud !== sandbox_id) throw unauthenticated('the session token contradicts itself')
    if (exp - iat > MAX_SESSION_TOKEN_SECONDS) throw unauthenticated('the session token lives too long')
    const notBefore = typeof payload.nbf === 'number' ? Math.max(payload.nbf, iat) : iat
    if (notBefore > now() / 1000 + CLOCK_LEEWAY_SECONDS) throw unauthenticated('the session token is not valid yet')
    return { claims: claims.data, kid }
  }
}

type Verified = { payload: Record<string, unknown>; kid: string }

async function verified(
  token: string,
  keyOf: (kid: string) => Promise<KeyObject | undefined>,
  wasWithdrawn: (kid: string) => boolean,
): Promise<Verified> {
  try {
    if (token.length > MAX_TOKEN_LENGTH || !isCanonicalToken(token)) throw new Error('too long, or not canonical')
    const header = decodeProtectedHeader(token)
    if (header.alg !== TOKEN_ALGORITHM || typeof header.kid !== 'string' || FORBIDDEN_HEADERS.some((name) => name in header))
      throw new Error('its header is not ours')
    const { kid } = header
    const key = await keyOf(kid)
    if (key === undefined && wasWithdrawn(kid)) throw keyWithdrawn()
    if (key === undefined) throw new Error('its key is not known')
    const { payload } = await compactVerify(token, key, { algorithms: [TOKEN_ALGORITHM] })
    const claims: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload))
    if (typeof claims !== 'object' || claims === null) throw new Error('its payload is no object')
    return { payload: claims as Record<string, unknown>, kid }
  } catch (cause) {
    if (cause instanceof BoxofficeError) throw cause
    throw new BoxofficeError('UNAUTHENTICATED', 'the session token is not valid; negotiate again', { cause })
  }
}

/** To its owner a token whose key has leaked is as one that has run out: another one is to be had [C-49]. */
export const keyWithdrawn = (): BoxofficeError =>
  new BoxofficeError('TOKEN_EXPIRED', 'the key that signed the session token has been withdrawn; refresh it', {
    details: { reason: 'key_withdrawn' },
  })

const unauthenticated = (message: string): BoxofficeError => new BoxofficeError('UNAUTHENTICATED', message)
