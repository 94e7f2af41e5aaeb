import { z } from 'zod'
import { KnownCapabilities } from '../base/capabilities.ts'

/** The JWK thumbprint of the key of the agent that a token is shown to (RFC 7800): another agent refuses it. */
const Confirmation = z.object({ jkt: z.string() })

/** The claims of a session token [4-52]; signed with Ed25519 by the broker, checked by agents [4-53]. */
export const SessionTokenClaims = z.object({
  iss: z.string(),
  /** The sandbox id. */
  aud: z.string(),
  /** The actor. */
  sub: z.string(),
  /** The session id. */
  sid: z.string(),
  thread_id: z.string().nullable(),
  sandbox_id: z.string(),
  /** The tenant. */
  tid: z.string(),
  caps: KnownCapabilities,
  /** The incarnation of the sandbox. */
  gen: z.number().int().nonnegative(),
  iat: z.number().int(),
  exp: z.number().int(),
  jti: z.string(),
  ver: z.literal(1),
  /** Of those that a broker shows in the place of a client's. */
  cnf: Confirmation.optional(),
})
export type SessionTokenClaims = z.infer<typeof SessionTokenClaims>

/** The claims of a control token: broker to agent, `aud` is the agent id, at most 60 s [C-79]. */
export const ControlTokenClaims = z.object({
  iss: z.string(),
  aud: z.string(),
  sub: z.literal('broker'),
  iat: z.number().int(),
  exp: z.number().int(),
  jti: z.string(),
  /** Of every agent that has registered with a key. */
  cnf: Confirmation.optional(),
})
export type ControlTokenClaims = z.infer<typeof ControlTokenClaims>

export const TOKEN_ALGORITHM = 'EdDSA'
/** `exp - iat` at most, whoever signed: 3,600 s of a session token, 60 s of a control token. */
export const MAX_SESSION_TOKEN_SECONDS = 3600
export const MAX_CONTROL_TOKEN_SECONDS = 60
/** Leeway in seconds: on `nbf` and `iat` everywhere, on `exp` at agents only [C-48]. */
export const CLOCK_LEEWAY_SECONDS = 30
export const AGENT_EXP_LEEWAY_SECONDS = 5

/** Ed25519 public keys as `/.well-known/jwks.json` shows them. */
export const Jwks = z.object({
  keys: z.array(
    z.object({
      kty: z.literal('OKP'),
      crv: z.literal('Ed25519'),
      x: z.string(),
      kid: z.string(),
      alg: z.literal('EdDSA').optional(),
      use: z.literal('sig').optional(),
    }),
  ),
})
export type Jwks = z.infer<typeof Jwks>
