/** Signatures by a private key that only the issuer has; with a shared secret whoever checks could also sign. */
export const OIDC_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const
export type OidcAlgorithm = (typeof OIDC_ALGORITHMS)[number]
