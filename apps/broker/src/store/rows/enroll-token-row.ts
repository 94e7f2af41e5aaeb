import type { EnrollTokenRecord } from '../store.ts'

/** One row of `enroll_tokens`. */
export type EnrollTokenRow = {
  id: string
  hash: string
  name: string
  one_use: number
  created_at: number
  expires_at: number | null
  used_at: number | null
  used_by: string | null
  revoked_at: number | null
}

/** What an enroll token says to a registration: it serves, or why it does not. */
export type Spent = 'ok' | 'revoked' | 'expired' | 'spent'

/** Whether a token enrolls an install at `now`; undefined for one that does not exist. */
export function judgeSpending(token: EnrollTokenRecord | undefined, now: number): Spent {
  if (token === undefined || token.revokedAt !== null) return 'revoked'
  if (token.expiresAt !== null && token.expiresAt <= now) return 'expired'
  return token.oneUse && token.usedAt !== null ? 'spent' : 'ok'
}

export const toEnrollTokenRow = (token: EnrollTokenRecord): EnrollTokenRow => ({
  id: token.id,
  hash: token.hash,
  name: token.name,
  one_use: token.oneUse ? 1 : 0,
  created_at: token.createdAt,
  expires_at: token.expiresAt,
  used_at: token.usedAt,
  used_by: token.usedBy,
  revoked_at: token.revokedAt,
})

export const toEnrollToken = (row: EnrollTokenRow): EnrollTokenRecord => ({
  id: row.id,
  hash: row.hash,
  name: row.name,
  oneUse: row.one_use !== 0,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  usedAt: row.used_at,
  usedBy: row.used_by,
  revokedAt: row.revoked_at,
})
