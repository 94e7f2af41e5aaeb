import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import type { Jwks } from '@boxoffice/protocol'
import { calculateJwkThumbprint } from 'jose'

/** One Ed25519 key pair. `activeAt` (ms) is when it starts to sign; it is published before that. */
export type SigningKey = { kid: string; activeAt: number; privateKey: KeyObject; jwk: Jwks['keys'][number] }

/** The oldest first; the same order for every broker. */
export const byAge = (a: SigningKey, b: SigningKey): number => a.activeAt - b.activeAt || (a.kid < b.kid ? -1 : 1)

export const newSigningKey = (activeAt: number): Promise<SigningKey> => signingKeyOf(generateKeyPairSync('ed25519').privateKey, activeAt)

/** Everything but its date follows from the private part. */
export async function signingKeyOf(privateKey: KeyObject, activeAt: number): Promise<SigningKey> {
  const { x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  const kid = await calculateJwkThumbprint({ kty: 'OKP', crv: 'Ed25519', x })
  return { kid, activeAt, privateKey, jwk: { kty: 'OKP', crv: 'Ed25519', x, kid, alg: 'EdDSA', use: 'sig' } }
}
