import { IDEMPOTENCY_MS, keyReused } from '../../../domain/idempotency.ts'
import type { IdempotencyRecord, IdempotencyStore } from '../../session-store.ts'
import type { Database, Transaction } from '../engine/database.ts'

type Row = { body_hash: string; session_id: string; expires_at: number }

const OF_KEY = 'tenant = $1 AND principal = $2 AND route = $3 AND key = $4'
const FIND = `SELECT body_hash, session_id, expires_at FROM idempotency WHERE ${OF_KEY} AND expires_at > $5`
const PUT = `INSERT INTO idempotency AS known (tenant, principal, route, key, body_hash, session_id, expires_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7)
  ON CONFLICT (tenant, principal, route, key) DO UPDATE
    SET body_hash = excluded.body_hash, session_id = excluded.session_id, expires_at = excluded.expires_at
    WHERE known.expires_at <= $8`

/** The first record of a key stays, unless it has expired. */
export async function putIdempotency(tx: Transaction, record: IdempotencyRecord): Promise<void> {
  const key = [record.tenant, record.principal, record.route, record.key]
  const values = [...key, record.bodyHash, record.sessionId, record.expiresAt, record.expiresAt - IDEMPOTENCY_MS]
  if ((await tx.run(PUT, values)) > 0) return
  // Another request with this key was faster. The same body is the same operation; another body undoes this one.
  const [first] = await tx.rows<Row>(`SELECT body_hash FROM idempotency WHERE ${OF_KEY}`, key)
  if (first?.body_hash !== record.bodyHash) throw keyReused(record.key)
}

/** Drops what points at this session. */
export async function forgetIdempotency(tx: Transaction, sessionId: string): Promise<void> {
  await tx.run('DELETE FROM idempotency WHERE session_id = $1', [sessionId])
}

export function postgresIdempotency({ read, once }: Database): IdempotencyStore {
  return {
    async find(tenant, principal, route, key, now) {
      const [row] = await read.rows<Row>(FIND, [tenant, principal, route, key, now])
      return row && { tenant, principal, route, key, bodyHash: row.body_hash, sessionId: row.session_id, expiresAt: row.expires_at }
    },
    async purge(now) {
      await once.run('DELETE FROM idempotency WHERE expires_at <= $1', [now])
    },
  }
}
