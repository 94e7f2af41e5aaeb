import { z } from 'zod'
import type { SessionEventData } from '../sessions/events.ts'

/**
 * What happened on an agent, told with its heartbeats. Entries are repeated until the broker has acknowledged their number
 * (`journal_seq`), and stored once per agent instance and number.
 */
export const JournalEntry = z.object({
  /** From 1, rising; numbers are missing where the agent had to drop entries. */
  seq: z.number().int().positive(),
  /** How long ago, by the agent's monotonic clock [C-77]. */
  age_ms: z.number().nonnegative(),
  type: z.string().max(64),
  session_id: z.string().max(64).nullable(),
  sandbox_id: z.string().max(64).nullable(),
  /** An earlier instance of the agent may have told it: to be stored unless it is there. */
  recovered: z.boolean().optional(),
  /** By `type`; checked by the broker, which skips what it does not know. */
  data: z.record(z.string().max(64), z.unknown()),
})
export type JournalEntry = z.infer<typeof JournalEntry>

/** Entries in one heartbeat. */
export const JOURNAL_BATCH = 500

const Access = z.object({
  /** Which part of the dataplane: `exec`, `shell`, `files`. */
  route: z.string().max(64),
  ip: z.string().max(64).nullable(),
  request_id: z.string().max(128),
  /** Null where no valid token was shown. */
  sub: z.string().max(256).nullable(),
  jti: z.string().max(128).nullable(),
  /** SHA-256 of the token, base64url: what the audit log has of its issuance. Never the token. */
  token_hash: z.string().max(64).nullable(),
})

export const JOURNAL_DATA = {
  /** A token is used for the first time on a route, or opens a socket. */
  'dataplane.open': Access.extend({ transport: z.enum(['http', 'ws']) }),
  'dataplane.refused': Access.extend({ code: z.string().max(64), reason: z.string().max(300) }),
} as const

export type DataplaneOpen = z.infer<(typeof JOURNAL_DATA)['dataplane.open']>
export type DataplaneRefused = z.infer<(typeof JOURNAL_DATA)['dataplane.refused']>

/** What an agent writes. */
export type JournalFact =
  | { type: 'exec.exit'; recovered?: boolean; data: SessionEventData<'exec.exit'> }
  | { type: 'process.exit'; recovered?: boolean; data: SessionEventData<'process.exit'> }
  | { type: 'egress'; data: SessionEventData<'egress'> }
  | { type: 'wake'; data: SessionEventData<'wake'> }
  | { type: 'dataplane.open'; data: DataplaneOpen }
  | { type: 'dataplane.refused'; data: DataplaneRefused }
