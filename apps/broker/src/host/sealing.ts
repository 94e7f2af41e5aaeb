import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { SecretKey, SecretKeys } from './secret-keys.ts'

/** `sealed`: base64url of nonce, ciphertext and tag. `kekId`: the key-encryption key that it is under. */
export type Sealed = { sealed: string; kekId: string }

/**
 * What a secret is and belongs to, beginning with its table. The same is needed to open it, so that nobody can put it in another place
 * or change what stands beside it.
 */
export type SealContext = readonly [purpose: string, ...parts: (string | number)[]]

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Encrypts under the first key, with a random nonce. */
export function seal(keys: SecretKeys, secret: Buffer, context: SealContext): Sealed {
  const { id, key } = keys.first
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(associated(id, context))
  const sealed = Buffer.concat([nonce, cipher.update(secret), cipher.final(), cipher.getAuthTag()])
  return { sealed: sealed.toString('base64url'), kekId: id }
}

/** Throws when no key has that id, or anything differs from what was sealed. */
export function unseal(keys: SecretKeys, { sealed, kekId }: Sealed, context: SealContext): Buffer {
  const key = keys.find(kekId)
  if (key === undefined) throw new Error('the secret key file has no key of its id')
  return opened(key, Buffer.from(sealed, 'base64url'), context)
}

function opened({ id, key }: SecretKey, sealed: Buffer, context: SealContext): Buffer {
  try {
    const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    decipher.setAAD(associated(id, context)).setAuthTag(sealed.subarray(-TAG_BYTES))
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch {
    throw new Error('it was not sealed like this: it or its row has been changed')
  }
}

const associated = (kekId: string, context: SealContext): Buffer => Buffer.from(JSON.stringify(['boxoffice', kekId, ...context]))
