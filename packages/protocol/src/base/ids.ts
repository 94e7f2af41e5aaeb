import { z } from 'zod'

/** Ids are opaque to clients [C-07]; these patterns are what our own parts mint and check. */
const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}'

export const SESSION_ID_PATTERN = new RegExp(`^ssn_${UUID}$`)
export const SANDBOX_ID_PATTERN = new RegExp(`^sb_${UUID}$`)
const REQUEST_ID_PATTERN = /^[A-Za-z0-9_.-]{1,128}$/
export const EXEC_ID_PATTERN = /^[A-Za-z0-9_-]{1,64}$/

export const newSessionId = (): string => `ssn_${crypto.randomUUID()}`
export const newSandboxId = (): string => `sb_${crypto.randomUUID()}`
export const newRequestId = (): string => `req_${crypto.randomUUID()}`

/** A request's id: the caller's where it is well formed, so that one id runs through its log and ours [4-163]. */
export const requestIdFrom = (given: string | readonly string[] | null | undefined): string =>
  typeof given === 'string' && REQUEST_ID_PATTERN.test(given) ? given : newRequestId()

export const hasControlCharacter = (text: string): boolean => {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return true
  }
  return false
}

/** A thread or scope id: 1 to 256 characters, no control characters, no white space at either end; compared as exact bytes [C-08]. */
export const ScopeId = z
  .string()
  .min(1, 'must not be empty')
  .max(256, 'must be at most 256 characters')
  .refine((id) => !hasControlCharacter(id), 'must not contain control characters')
  .refine((id) => id.trim() === id, 'must not start or end with white space')
  .refine((id) => id.isWellFormed(), 'must be valid Unicode, without half a surrogate pair')

export const ExecId = z.string().regex(EXEC_ID_PATTERN, 'must be 1 to 64 characters of A-Z, a-z, 0-9, _ and -')
