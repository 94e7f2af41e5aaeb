import { type KeyRow, toKey, toKeyRow } from '../../rows/key-row.ts'
import type { KeyStore } from '../../store.ts'
import type { Database } from '../engine/database.ts'
import { appendAudit } from './audit.ts'
import { revoke } from './revocations.ts'

export function postgresKeys({ read, write }: Database): KeyStore {
  return {
    insert: (key, audit) =>
      write(async (tx) => {
        const row = toKeyRow(key)
        await tx.run(INSERT, [
          ...[row.id, row.hash, row.name, row.tenant, row.principal, row.actor_type, row.role, row.rights, row.capabilities],
          ...[row.created_at, row.revoked_at],
        ])
        await appendAudit(tx, audit)
      }),
    byHash: async (hash) => (await read.rows<KeyRow>('SELECT * FROM api_keys WHERE hash = $1', [hash])).map(toKey)[0],
    byId: async (id) => (await read.rows<KeyRow>('SELECT * FROM api_keys WHERE id = $1', [id])).map(toKey)[0],
    list: async (tenant) => (await read.rows<KeyRow>(LIST, [tenant])).map(toKey),
    revoke: (id, now, audit) => revoke(write, 'api_keys', { id, now, audit }),
    countValid: async () =>
      (await read.rows<{ count: number }>('SELECT count(*) AS count FROM api_keys WHERE revoked_at IS NULL'))[0]?.count ?? 0,
  }
}

const INSERT = `INSERT INTO api_keys
    (id, hash, name, tenant, principal, actor_type, role, rights, capabilities, created_at, revoked_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

const LIST = 'SELECT * FROM api_keys WHERE $1::text IS NULL OR tenant = $1 ORDER BY created_at DESC, id'
