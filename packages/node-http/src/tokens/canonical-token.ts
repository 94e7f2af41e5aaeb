/**
 * Whether each part of a compact JWS is base64url as an encoder writes it. Decoders pass over blanks and spare bits, so that one
 * signature would have many spellings, and what is kept of a token by its text would miss all but one of them.
 */
export const isCanonicalToken = (token: string): boolean =>
  token.split('.').every((part) => Buffer.from(part, 'base64url').toString('base64url') === part)
