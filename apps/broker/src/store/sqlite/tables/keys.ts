import { type KeyRow, toKey, toKeyRow } from '../../rows/key-row.ts'
import type { KeyRecord, KeyStore } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'
import { sqliteRevocations } from './revocations.ts'

export function sqliteKeys(db: Db, write: Write, appendAudit: AppendAudit): KeyStore {
  const insert = db.prepare(
    `INSERT INTO api_keys (id, hash, name, tenant, principal, actor_type, role, rights, capabilities, created_at, revoked_at)
     VALUES (@id, @hash, @name, @tenant, @principal, @actor_type, @role, @rights, @capabilities, @created_at, @revoked_at)`,
  )
  const byHash = db.prepare<[string], KeyRow>('SELECT * FROM api_keys WHERE hash = ?')
  const byId = db.prepare<[string], KeyRow>('SELECT * FROM api_keys WHERE id = ?')
  const list = db.prepare<[{ tenant: string | null }], KeyRow>(
    'SELECT * FROM api_keys WHERE @tenant IS NULL OR tenant = @tenant ORDER BY created_at DESC, id',
  )
  const countValid = db.prepare('SELECT count(*) FROM api_keys WHERE revoked_at IS NULL').pluck()
  const revocations = sqliteRevocations(db, write, appendAudit, { table: 'api_keys', kind: 'key' })
  const read = (row: KeyRow): KeyRecord => toKey({ ...row, revoked_at: revocations.at(row) })
  const found = (row: KeyRow | undefined): KeyRecord | undefined => row && read(row)
  return {
    insert: async (key, audit) =>
      write(() => {
        insert.run(toKeyRow(key))
        appendAudit(audit)
      }),
    byHash: async (hash) => found(byHash.get(hash)),
    byId: async (id) => found(byId.get(id)),
    list: async (tenant) => list.all({ tenant }).map(read),
    revoke: revocations.revoke,
    countValid: async () => countValid.get() as number,
  }
}
