import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from 'pg'
import { OWN_FILE } from '../../host/make-secret-key.ts'
import { SecretKeys } from '../../host/secret-keys.ts'
import { StartError } from '../../host/start-error.ts'
import { openValue, sealValue } from '../../secrets/sealed-value.ts'
import { type SecretRow, toSecret } from '../rows/secret-row.ts'
import type { Db } from '../sqlite/engine/database.ts'

/**
 * Seals the secrets of tenants under the first of `keys` into the database, in the client's transaction. They open with the keys of the
 * data directory, or with `keys`. Gives how many there are. Throws `StartError` for one that does not open.
 */
export async function copySecrets(db: Db, client: Client, directory: string, keys: SecretKeys): Promise<number> {
  const own = join(directory, OWN_FILE)
  const opening = [keys, ...(existsSync(own) ? [new SecretKeys(own)] : [])]
  let copied = 0
  for (const row of db.prepare<[], SecretRow>('SELECT * FROM secrets').all()) {
    const secret = toSecret(row)
    const { sealed, kekId } = sealValue(keys, secret, openedBy(opening, secret))
    const { tenant, name, version, description, created_at, created_by, updated_at } = row
    await client.query(INSERT, [tenant, name, version, description, sealed, kekId, created_at, created_by, updated_at])
    copied++
  }
  return copied
}

function openedBy(opening: readonly SecretKeys[], secret: Parameters<typeof openValue>[1]): string {
  const keys = opening.find((each) => each.find(secret.kekId) !== undefined)
  try {
    if (keys !== undefined) return openValue(keys, secret)
  } catch {
    // told below
  }
  throw new StartError(
    `the secret "${secret.name}" of the tenant "${secret.tenant}" is sealed under the key ${secret.kekId} and does not open; remove it, or give a secret key file with that key`,
  )
}

const INSERT = `INSERT INTO secrets (tenant, name, version, description, sealed, kek_id, created_at, created_by, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
