import type { EnrollTokenRecord, EnrollTokenStore } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'
import { sqliteRevocations } from './revocations.ts'

type Row = {
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

/** `spend` is for use within the transaction of the registration. */
export type SqliteEnrollTokens = {
  store: EnrollTokenStore
  spend(id: string, agentId: string, now: number): Spent
  isRevoked(id: string): boolean
}

export function sqliteEnrollTokens(db: Db, write: Write, appendAudit: AppendAudit): SqliteEnrollTokens {
  const insert = db.prepare(
    `INSERT INTO enroll_tokens (id, hash, name, one_use, created_at, expires_at, used_at, used_by, revoked_at)
     VALUES (@id, @hash, @name, @oneUse, @createdAt, @expiresAt, @usedAt, @usedBy, @revokedAt)`,
  )
  const byHash = db.prepare<[string], Row>('SELECT * FROM enroll_tokens WHERE hash = ?')
  const byId = db.prepare<[string], Row>('SELECT * FROM enroll_tokens WHERE id = ?')
  const list = db.prepare<[], Row>('SELECT * FROM enroll_tokens ORDER BY created_at DESC, id')
  const use = db.prepare('UPDATE enroll_tokens SET used_at = ?, used_by = ? WHERE id = ?')
  const revocations = sqliteRevocations(db, write, appendAudit, { table: 'enroll_tokens', kind: 'enroll_token' })
  const read = (row: Row): EnrollTokenRecord => toToken({ ...row, revoked_at: revocations.at(row) })
  const found = (row: Row | undefined): EnrollTokenRecord | undefined => row && read(row)
  return {
    store: {
      insert: async (token, audit) =>
        write(() => {
          insert.run({ ...token, oneUse: token.oneUse ? 1 : 0 })
          appendAudit(audit)
        }),
      byHash: async (hash) => found(byHash.get(hash)),
      list: async () => list.all().map(read),
      revoke: revocations.revoke,
    },
    spend(id, agentId, now) {
      const token = found(byId.get(id))
      if (token === undefined || token.revokedAt !== null) return 'revoked'
      if (token.expiresAt !== null && token.expiresAt <= now) return 'expired'
      if (token.oneUse && token.usedAt !== null) return 'spent'
      use.run(now, agentId, id)
      return 'ok'
    },
    isRevoked: (id) => (found(byId.get(id))?.revokedAt ?? null) !== null,
  }
}

const toToken = (row: Row): EnrollTokenRecord => ({
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
