import { isCanonicalToken } from '@boxoffice/node-http'
import { BoxofficeError, TOKEN_ALGORITHM } from '@boxoffice/protocol'
import { compactVerify, decodeProtectedHeader } from 'jose'
import type { KeySource } from './keys.ts'

const MAX_TOKEN_LENGTH = 8192

export const unauthenticated = (message: string): BoxofficeError => new BoxofficeError('UNAUTHENTICATED', message)

/** Headers by which a token could bring its own key, or change how it is read, are refused, whatever they say [4-53]. */
const FORBIDDEN_HEADERS = ['jku', 'x5u', 'jwk', 'x5c', 'crit', 'b64', 'zip'] as const

type Verified = { payload: Record<string, unknown>; kid: string }

/** The payload of a token that one of the keys has signed. Throws UNAUTHENTICATED, and TOKEN_EXPIRED for a key that was withdrawn. */
export const verifySignature = async (token: string, keys: KeySource): Promise<Verified> => {
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
export const keyWithdrawn = (): BoxofficeError =>
  new BoxofficeError('TOKEN_EXPIRED', 'The key that signed the session token has been withdrawn; refresh it', {
    details: { reason: KEY_WITHDRAWN },
  })

/** Whether an error is nothing to what is open already: expiry has its own time there [C-27], the end of a key has not. */
export const isPlainExpiry = (error: BoxofficeError): boolean => error.code === 'TOKEN_EXPIRED' && error.details?.reason !== KEY_WITHDRAWN
