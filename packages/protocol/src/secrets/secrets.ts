import { z } from 'zod'
import { LIMITS } from '../base/limits.ts'

/** What a secret is called within its tenant. Rules and placeholders of a policy name it so. */
export const SecretName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/, 'must be letters, digits, "_", "." and "-", at most 128')

/** Text of at most 64 KiB as UTF-8. No message of a refusal quotes it. */
const SecretValue = z
  .string()
  .min(1, 'must not be empty')
  .refine((text) => !text.includes('\0') && text.isWellFormed(), 'must be text without NUL')
  .refine((text) => new TextEncoder().encode(text).length <= LIMITS.secretBytes, `must be at most ${LIMITS.secretBytes} bytes`)

/** `PUT B/v1/secrets/{name}`. An absent description leaves the one that is there. */
export const SetSecretRequest = z.strictObject({ value: SecretValue, description: z.string().max(500).optional() })
export type SetSecretRequest = z.infer<typeof SetSecretRequest>

/** A secret as everybody reads it: never its value. */
export const SecretInfo = z.object({
  name: z.string(),
  /** Rises by one with each new value. */
  version: z.number().int(),
  description: z.string().nullable(),
  created_at: z.string(),
  created_by: z.string(),
  updated_at: z.string(),
})
export type SecretInfo = z.infer<typeof SecretInfo>

/** `GET B/v1/secrets`, in the order of the names. */
export const ListSecretsResponse = z.object({ secrets: z.array(SecretInfo), next_cursor: z.string().nullable() })
export type ListSecretsResponse = z.infer<typeof ListSecretsResponse>

/** How many names an agent asks for at once. */
export const SECRETS_AT_ONCE = 128

/** Agent to broker, for a session that is on the agent now: `POST B/v1/agents/{id}/secrets`. */
export const SessionSecretsRequest = z.object({ session_id: z.string().max(64), names: z.array(SecretName).max(SECRETS_AT_ONCE) })
export type SessionSecretsRequest = z.infer<typeof SessionSecretsRequest>

/** By their names; those that the session may not have, and those that are not there, are left out. */
export const SessionSecretsResponse = z.object({
  secrets: z.record(z.string(), z.object({ value: z.string(), version: z.number().int() })),
})
export type SessionSecretsResponse = z.infer<typeof SessionSecretsResponse>
