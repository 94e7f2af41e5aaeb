import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { CAPABILITIES, type Jwks, type SessionTokenClaims } from '@boxoffice/protocol'
import { SignJWT } from 'jose'

export const ISSUER = 'http://broker.test'
/** The key that the agent under test has proved; nothing is signed with it here. */
export const AGENT_PUBLIC_KEY = 'key-of-this-agent'

type KeyPair = { publicKey: KeyObject; privateKey: KeyObject }

/** Signs session tokens as a broker would. */
export type TestIssuer = {
  jwks: Jwks
  privateKey: KeyObject
  publicKey: KeyObject
  kid: string
  claims(overrides?: Partial<SessionTokenClaims>): SessionTokenClaims
  sign(overrides?: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>
}

export const createTestIssuer = (
  defaults: { sandboxId: string; sessionId: string },
  { privateKey, publicKey }: KeyPair = generateKeyPairSync('ed25519'),
): TestIssuer => {
  const kid = 'test-key'
  const { x } = publicKey.export({ format: 'jwk' })
  const claims = (overrides: Partial<SessionTokenClaims> = {}): SessionTokenClaims => {
    const now = Math.floor(Date.now() / 1000)
    return {
      iss: ISSUER,
      aud: defaults.sandboxId,
      sub: 'human',
      sid: defaults.sessionId,
      thread_id: 'thread-1',
      sandbox_id: defaults.sandboxId,
      tid: 'tenant',
      caps: [...CAPABILITIES],
      gen: 1,
      iat: now,
      exp: now + 600,
      jti: crypto.randomUUID(),
      ver: 1,
      ...overrides,
    }
  }
  return {
    jwks: { keys: [{ kty: 'OKP', crv: 'Ed25519', x: x as string, kid }] },
    privateKey,
    publicKey,
    kid,
    claims,
    sign: (overrides, header) =>
      new SignJWT({ ...claims(), ...overrides }).setProtectedHeader({ alg: 'EdDSA', kid, ...header }).sign(privateKey),
  }
}
