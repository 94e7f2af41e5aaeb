import { IDEMPOTENCY_MS, keyReused } from '../../../domain/idempotency.ts'
import type { IdempotencyRecord, IdempotencyStore } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

type Row = { body_hash: string; session_id: string; expires_at: number }

export type Idempotency = IdempotencyStore & {
  /** Inside a transaction. The first record of a key stays, unless it has expired. */
  put(record: IdempotencyRecord): void
  /** Inside a transaction: drops what points at this session. */
  forget(sessionId: string): void
}

export function sqliteIdempotency(db: Db, write: Write): Idempotency {
  const find = db.prepare<[string, string, string, string, number], Row>(
    `SELECT body_hash, session_id, expires_at FROM idempotency
     WHERE tenant = ? AND principal = ? AND route = ? AND key = ? AND expires_at > ?`,
  )
  const dropExpired = db.prepare('DELETE FROM idempotency WHERE tenant = ? AND principal = ? AND route = ? AND key = ? AND expires_at <= ?')
  const insert = db.prepare(
    'INSERT OR IGNORE INTO idempotency (tenant, principal, route, key, body_hash, session_id, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
  )
  const bodyHash = db
    .prepare<[string, string, string, string]>(
      'SELECT body_hash FROM idempotency WHERE tenant = ? AND principal = ? AND route = ? AND key = ?',
    )
    .pluck()
  const forget = db.prepare('DELETE FROM idempotency WHERE session_id = ?')
  const purge = db.prepare('DELETE FROM idempotency WHERE expires_at <= ?')
  return {
    find: async (tenant, principal, route, key, now) => {
      const row = find.get(tenant, principal, route, key, now)
      return row && { tenant, principal, route, key, bodyHash: row.body_hash, sessionId: row.session_id, expiresAt: row.expires_at }
    },
    purge: async (now) => write.vital(() => void purge.run(now)),
    put: (record) => {
      const { tenant, principal, route, key } = record
      dropExpired.run(tenant, principal, route, key, record.expiresAt - IDEMPOTENCY_MS)
      const inserted = insert.run(tenant, principal, route, key, record.bodyHash, record.sessionId, record.expiresAt)
      // Another request with this key was faster. The same body is the same operation; another body undoes this one.
      if (inserted.changes === 0 && bodyHash.get(tenant, principal, route, key) !== record.bodyHash) throw keyReused(key)
    },
    forget: (sessionId) => void forget.run(sessionId),
  }
}
