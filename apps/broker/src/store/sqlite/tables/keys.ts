import type { Capability } from '@boxoffice/protocol'
import type { KeyRecord, KeyRight, KeyRole, KeyStore } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'
import { sqliteRevocations } from './revocations.ts'

type Row = {
  id: string
  hash: string
  name: string
  tenant: string
  principal: string
  actor_type: 'human' | 'agent'
  role: KeyRole
  rights: string
  capabilities: string | null
  created_at: number
  revoked_at: number | null
}

export function sqliteKeys(db: Db, write: Write, appendAudit: AppendAudit): KeyStore {
  const insert = db.prepare(
    `INSERT INTO api_keys (id, hash, name, tenant, principal, actor_type, role, rights, capabilities, created_at, revoked_at)
     VALUES (@id, @hash, @name, @tenant, @principal, @actorType, @role, @rights, @capabilities, @createdAt, @revokedAt)`,
  )
  const byHash = db.prepare<[string], Row>('SELECT * FROM api_keys WHERE hash = ?')
  const byId = db.prepare<[string], Row>('SELECT * FROM api_keys WHERE id = ?')
  const list = db.prepare<[{ tenant: string | null }], Row>(
    'SELECT * FROM api_keys WHERE @tenant IS NULL OR tenant = @tenant ORDER BY created_at DESC, id',
  )
  const countValid = db.prepare('SELECT count(*) FROM api_keys WHERE revoked_at IS NULL').pluck()
  const revocations = sqliteRevocations(db, write, appendAudit, { table: 'api_keys', kind: 'key' })
  const read = (row: Row): KeyRecord => toKey({ ...row, revoked_at: revocations.at(row) })
  const found = (row: Row | undefined): KeyRecord | undefined => row && read(row)
  return {
    insert: async (key, audit) =>
      write(() => {
        insert.run({ ...key, rights: JSON.stringify(key.rights), capabilities: key.capabilities?.join(' ') ?? null })
        appendAudit(audit)
      }),
    byHash: async (hash) => found(byHash.get(hash)),
    byId: async (id) => found(byId.get(id)),
    list: async (tenant) => list.all({ tenant }).map(read),
    revoke: revocations.revoke,
    countValid: async () => countValid.get() as number,
  }
}

const toKey = (row: Row): KeyRecord => ({
  id: row.id,
  hash: row.hash,
  name: row.name,
  tenant: row.tenant,
  principal: row.principal,
  actorType: row.actor_type,
  role: row.role,
  rights: JSON.parse(row.rights) as KeyRight[],
  capabilities: row.capabilities === null ? null : (row.capabilities.split(' ').filter(Boolean) as Capability[]),
  createdAt: row.created_at,
  revokedAt: row.revoked_at,
})
