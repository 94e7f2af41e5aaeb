import { type SecretRow, toSecret, toSecretRow } from '../../rows/secret-row.ts'
import type { SecretStore } from '../../secret-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'

export function sqliteSecrets(db: Db, write: Write, appendAudit: AppendAudit): SecretStore {
  const find = db.prepare<[string, string], SecretRow>('SELECT * FROM secrets WHERE tenant = ? AND name = ?')
  const named = db.prepare<[string, string], SecretRow>(
    'SELECT * FROM secrets WHERE tenant = ? AND name IN (SELECT value FROM json_each(?))',
  )
  const list = db.prepare<[string, string, number], SecretRow>('SELECT * FROM secrets WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?')
  const page = db.prepare<[string, string, number], SecretRow>(
    'SELECT * FROM secrets WHERE (tenant, name) > (?, ?) ORDER BY tenant, name LIMIT ?',
  )
  const count = db.prepare<[string], number>('SELECT count(*) FROM secrets WHERE tenant = ?').pluck()
  const insert = db.prepare(
    `INSERT INTO secrets (tenant, name, version, description, sealed, kek_id, created_at, created_by, updated_at)
     VALUES (@tenant, @name, @version, @description, @sealed, @kek_id, @created_at, @created_by, @updated_at)
     ON CONFLICT (tenant, name) DO NOTHING`,
  )
  const replace = db.prepare(
    `UPDATE secrets SET version = @version, description = @description, sealed = @sealed, kek_id = @kek_id,
       created_at = @created_at, created_by = @created_by, updated_at = @updated_at
     WHERE tenant = @tenant AND name = @name AND version = @before`,
  )
  const remove = db.prepare('DELETE FROM secrets WHERE tenant = ? AND name = ?')
  const reseal = db.prepare('UPDATE secrets SET sealed = ?, kek_id = ? WHERE tenant = ? AND name = ? AND sealed = ?')
  return {
    async find(tenant, name) {
      const row = find.get(tenant, name)
      return row && toSecret(row)
    },
    named: async (tenant, names) => named.all(tenant, JSON.stringify(names)).map(toSecret),
    list: async (tenant, after, limit) => list.all(tenant, after ?? '', limit).map(toSecret),
    put: (secret, before, most, audit) =>
      write(() => {
        const row = toSecretRow(secret)
        if (before === null && find.get(secret.tenant, secret.name) === undefined && (count.get(secret.tenant) ?? 0) >= most) return 'full'
        const { changes } = before === null ? insert.run(row) : replace.run({ ...row, before })
        if (changes === 0) return 'changed'
        appendAudit(audit)
        return 'put'
      }),
    remove: (tenant, name, audit) =>
      write.vital(() => {
        if (remove.run(tenant, name).changes === 0) return false
        appendAudit(audit)
        return true
      }),
    page: async (after, limit) => page.all(after?.tenant ?? '', after?.name ?? '', limit).map(toSecret),
    reseal: ({ tenant, name }, before, { sealed, kekId }) => write(() => reseal.run(sealed, kekId, tenant, name, before).changes > 0),
  }
}
