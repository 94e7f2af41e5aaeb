import type { Client } from 'pg'
import { createLog } from '../../host/log.ts'
import type { SecretKeys } from '../../host/secret-keys.ts'
import { KeyFiles } from '../../tokens/key-files.ts'
import { SealedKeys } from '../../tokens/sealed-keys.ts'
import type { Sql } from '../postgres/engine/database.ts'
import { postgresSigningKeys } from '../postgres/tables/signing-keys.ts'

/**
 * Seals the signing keys of the data directory into the database, in the client's transaction, and reads them back. Gives how many rows
 * there are, withdrawn ones included. Throws `StartError` for a key that cannot be read.
 */
export async function copySigningKeys(client: Client, directory: string, secrets: SecretKeys, now: number): Promise<number> {
  const found = await new KeyFiles(directory).read()
  const { keys = [], withdrawn = new Set<string>() } = found ?? {}
  const place = new SealedKeys({ store: storeOf(client), secrets, log: createLog('silent') })
  for (const key of keys) {
    // It adds a key only to those that it has seen.
    await place.read()
    if (!(await place.add(key, now))) throw new Error('another program writes signing keys to the database')
  }
  const opened = new Set((await place.read()).keys.map(({ kid }) => kid))
  if (keys.some(({ kid }) => !opened.has(kid))) throw new Error('a signing key does not open as it was sealed')
  // Of a withdrawn key only the id is left: tokens of it are told why they are refused.
  for (const kid of withdrawn) await client.query(WITHDRAWN, [kid, now])
  return keys.length + withdrawn.size
}

const WITHDRAWN = `INSERT INTO signing_keys (kid, jwk, active_at, created_at, withdrawn_at, sealed, kek_id)
  VALUES ($1, '', 0, $2, $2, '', '') ON CONFLICT (kid) DO NOTHING`

function storeOf(client: Client) {
  const sql: Sql = {
    rows: async <R extends object>(text: string, values: readonly unknown[] = []) => (await client.query<R>(text, [...values])).rows,
    run: async (text, values = []) => (await client.query(text, [...values])).rowCount ?? 0,
  }
  return postgresSigningKeys({ read: sql, once: sql, write: (work) => work({ ...sql, appended() {} }) })
}
