import { createHash } from 'node:crypto'

/** The JWK thumbprint (RFC 7638) of an Ed25519 public key; `x` as in its JWK. Tokens name the key of an agent by it (`cnf.jkt`, RFC 7800). */
export const keyThumbprint = (x: string): string =>
  createHash('sha256')
    .update(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x }))
    .digest('base64url')
