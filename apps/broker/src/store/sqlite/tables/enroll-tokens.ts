import { type EnrollTokenRow, judgeSpending, type Spent, toEnrollToken, toEnrollTokenRow } from '../../rows/enroll-token-row.ts'
import type { EnrollTokenRecord, EnrollTokenStore } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'
import { sqliteRevocations } from './revocations.ts'

/** `spend` is for use within the transaction of the registration. */
export type SqliteEnrollTokens = {
  store: EnrollTokenStore
  spend(id: string, agentId: string, now: number): Spent
  isRevoked(id: string): boolean
}

export function sqliteEnrollTokens(db: Db, write: Write, appendAudit: AppendAudit): SqliteEnrollTokens {
  const insert = db.prepare(
    `INSERT INTO enroll_tokens (id, hash, name, one_use, created_at, expires_at, used_at, used_by, revoked_at)
     VALUES (@id, @hash, @name, @one_use, @created_at, @expires_at, @used_at, @used_by, @revoked_at)`,
  )
  const byHash = db.prepare<[string], EnrollTokenRow>('SELECT * FROM enroll_tokens WHERE hash = ?')
  const byId = db.prepare<[string], EnrollTokenRow>('SELECT * FROM enroll_tokens WHERE id = ?')
  const list = db.prepare<[], EnrollTokenRow>('SELECT * FROM enroll_tokens ORDER BY created_at DESC, id')
  const use = db.prepare('UPDATE enroll_tokens SET used_at = ?, used_by = ? WHERE id = ?')
  const revocations = sqliteRevocations(db, write, appendAudit, { table: 'enroll_tokens', kind: 'enroll_token' })
  const read = (row: EnrollTokenRow): EnrollTokenRecord => toEnrollToken({ ...row, revoked_at: revocations.at(row) })
  const found = (row: EnrollTokenRow | undefined): EnrollTokenRecord | undefined => row && read(row)
  return {
    store: {
      insert: async (token, audit) =>
        write(() => {
          insert.run(toEnrollTokenRow(token))
          appendAudit(audit)
        }),
      byHash: async (hash) => found(byHash.get(hash)),
      list: async () => list.all().map(read),
      revoke: revocations.revoke,
    },
    spend(id, agentId, now) {
      const spent = judgeSpending(found(byId.get(id)), now)
      if (spent === 'ok') use.run(now, agentId, id)
      return spent
    },
    isRevoked: (id) => (found(byId.get(id))?.revokedAt ?? null) !== null,
  }
}
