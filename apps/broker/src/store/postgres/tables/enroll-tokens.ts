import { type EnrollTokenRow, judgeSpending, type Spent, toEnrollToken, toEnrollTokenRow } from '../../rows/enroll-token-row.ts'
import type { EnrollTokenRecord, EnrollTokenStore } from '../../store.ts'
import type { Database, Sql } from '../engine/database.ts'
import { appendAudit } from './audit.ts'
import { revoke } from './revocations.ts'

export function postgresEnrollTokens({ read, write }: Database): EnrollTokenStore {
  return {
    insert: (token, audit) =>
      write(async (tx) => {
        const row = toEnrollTokenRow(token)
        await tx.run(INSERT, [
          ...[row.id, row.hash, row.name, row.one_use, row.created_at, row.expires_at, row.used_at, row.used_by, row.revoked_at],
        ])
        await appendAudit(tx, audit)
      }),
    byHash: async (hash) => (await read.rows<EnrollTokenRow>('SELECT * FROM enroll_tokens WHERE hash = $1', [hash])).map(toEnrollToken)[0],
    list: async () => (await read.rows<EnrollTokenRow>('SELECT * FROM enroll_tokens ORDER BY created_at DESC, id')).map(toEnrollToken),
    revoke: (id, now, audit) => revoke(write, 'enroll_tokens', { id, now, audit }),
  }
}

/** In the transaction of the registration: uses the token for this agent, where it serves. Of two at once, the second one finds it used. */
export async function spend(tx: Sql, id: string, agentId: string, now: number): Promise<Spent> {
  const spent = judgeSpending(await lockedToken(tx, id), now)
  if (spent === 'ok') await tx.run('UPDATE enroll_tokens SET used_at = $1, used_by = $2 WHERE id = $3', [now, agentId, id])
  return spent
}

export const isRevoked = async (tx: Sql, id: string): Promise<boolean> => ((await lockedToken(tx, id))?.revokedAt ?? null) !== null

/** Locked until the transaction ends. */
async function lockedToken(tx: Sql, id: string): Promise<EnrollTokenRecord | undefined> {
  return (await tx.rows<EnrollTokenRow>('SELECT * FROM enroll_tokens WHERE id = $1 FOR UPDATE', [id])).map(toEnrollToken)[0]
}

const INSERT = `INSERT INTO enroll_tokens (id, hash, name, one_use, created_at, expires_at, used_at, used_by, revoked_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
