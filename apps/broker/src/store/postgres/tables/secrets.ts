import { type SecretRow, toSecret, toSecretRow } from '../../rows/secret-row.ts'
import type { SecretRecord, SecretStore } from '../../secret-store.ts'
import type { Database, Sql } from '../engine/database.ts'
import { lockNamed } from '../engine/locks.ts'
import { appendAudit } from './audit.ts'

export function postgresSecrets({ read, once, write }: Database): SecretStore {
  return {
    find: async (tenant, name) => (await read.rows<SecretRow>(FIND, [tenant, name])).map(toSecret)[0],
    named: async (tenant, names) => (await read.rows<SecretRow>(NAMED, [tenant, names])).map(toSecret),
    list: async (tenant, after, limit) => (await read.rows<SecretRow>(LIST, [tenant, after ?? '', limit])).map(toSecret),
    put: (secret, before, most, audit) =>
      write(async (tx) => {
        if (before === null && (await isFull(tx, secret, most))) return 'full'
        const changes = before === null ? await tx.run(INSERT, valuesOf(secret)) : await tx.run(REPLACE, [...valuesOf(secret), before])
        if (changes === 0) return 'changed'
        await appendAudit(tx, audit)
        return 'put'
      }),
    remove: (tenant, name, audit) =>
      write(async (tx) => {
        if ((await tx.run('DELETE FROM secrets WHERE tenant = $1 AND name = $2', [tenant, name])) === 0) return false
        await appendAudit(tx, audit)
        return true
      }),
    page: async (after, limit) => (await read.rows<SecretRow>(PAGE, [after?.tenant ?? '', after?.name ?? '', limit])).map(toSecret),
    reseal: async ({ tenant, name }, before, { sealed, kekId }) => (await once.run(RESEAL, [sealed, kekId, tenant, name, before])) === 1,
  }
}

/** Those of one tenant that add secrets take turns, so that there are never more than `most`. */
async function isFull(tx: Sql, { tenant, name }: SecretRecord, most: number): Promise<boolean> {
  await lockNamed(tx, `secrets of ${tenant}`)
  const [known] = await tx.rows<{ count: number; taken: boolean }>(COUNT, [tenant, name])
  return known !== undefined && !known.taken && known.count >= most
}

function valuesOf(secret: SecretRecord): unknown[] {
  const row = toSecretRow(secret)
  return [row.tenant, row.name, row.version, row.description, row.sealed, row.kek_id, row.created_at, row.created_by, row.updated_at]
}

const FIND = 'SELECT * FROM secrets WHERE tenant = $1 AND name = $2'
const NAMED = 'SELECT * FROM secrets WHERE tenant = $1 AND name = ANY($2)'
const LIST = 'SELECT * FROM secrets WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3'
const PAGE = 'SELECT * FROM secrets WHERE (tenant, name) > ($1, $2) ORDER BY tenant, name LIMIT $3'
const COUNT = 'SELECT count(*) AS count, coalesce(bool_or(name = $2), false) AS taken FROM secrets WHERE tenant = $1'
const INSERT = `INSERT INTO secrets (tenant, name, version, description, sealed, kek_id, created_at, created_by, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (tenant, name) DO NOTHING`
const REPLACE = `UPDATE secrets SET version = $3, description = $4, sealed = $5, kek_id = $6, created_at = $7, created_by = $8, updated_at = $9
  WHERE tenant = $1 AND name = $2 AND version = $10`
const RESEAL = 'UPDATE secrets SET sealed = $1, kek_id = $2 WHERE tenant = $3 AND name = $4 AND sealed = $5'
