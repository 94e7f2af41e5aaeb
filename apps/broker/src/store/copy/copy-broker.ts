import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from 'pg'
import { brokerDirectory, DATABASE_FILE } from '../../host/data-dir.ts'
import { lockDataDir } from '../../host/lock.ts'
import { SecretKeys } from '../../host/secret-keys.ts'
import { StartError } from '../../host/start-error.ts'
import { connect, placeOf } from '../postgres/engine/connection.ts'
import { migrate } from '../postgres/engine/migrate.ts'
import { type Db, openDatabase } from '../sqlite/engine/database.ts'
import { HeldLog } from '../sqlite/engine/held-log.ts'
import { COPIED } from './copied-tables.ts'
import { copySecrets } from './copy-secrets.ts'
import { copySigningKeys } from './copy-signing-keys.ts'
import { copyTable } from './copy-table.ts'

export type CopyOptions = {
  /** The data directory of a broker that does not run, or the directory above it. */
  from: string
  /** `postgres://USER:PASSWORD@HOST:PORT/DATABASE` */
  to: string
  /** What signing keys and secrets are sealed under. */
  secretKeyFile: string
}

/** How many rows each table has now. */
export type Copied = Readonly<Record<string, number>>

/**
 * Copies what a broker has in its data directory into an empty PostgreSQL database, whose schema it makes: all of it, in one transaction,
 * or nothing. The directory keeps everything. Throws `StartError` when the broker runs, or the database is not empty.
 */
export async function copyBroker({ from, to, secretKeyFile }: CopyOptions): Promise<Copied> {
  const directory = brokerDirectory(from)
  const secrets = new SecretKeys(secretKeyFile)
  using _lock = lockDataDir(directory, false)
  const path = join(directory, DATABASE_FILE)
  if (existsSync(`${path}-held`) && new HeldLog(path).entries().length > 0)
    throw new StartError(`${path}-held has changes that are not in the database yet; start and stop the broker once more, then copy it`)
  const db = await openDatabase(path)
  try {
    await migrate(to)
    const client = await connect(to, { patient: true })
    try {
      return await copyInto(client, db, { directory, secrets, place: placeOf(to) })
    } finally {
      await client.end().catch(() => {})
    }
  } finally {
    db.close()
  }
}

type Source = { directory: string; secrets: SecretKeys; place: string }

/** A failure ends the connection, and the transaction with it. */
async function copyInto(client: Client, db: Db, { directory, secrets, place }: Source): Promise<Copied> {
  await client.query('BEGIN')
  await requireEmpty(client, place)
  const copied: Record<string, number> = {}
  for (const table of COPIED) copied[table] = await reported(table, () => copyTable(db, client, table))
  copied.signing_keys = await reported('signing_keys', () => copySigningKeys(client, directory, secrets, Date.now()))
  copied.secrets = await reported('secrets', () => copySecrets(db, client, directory, secrets))
  for (const table of COPIED) {
    const count = db.prepare(`SELECT count(*) FROM ${table}`).pluck().get()
    if (count !== copied[table]) throw new Error(`the table ${table} has ${count} rows, of which ${copied[table]} were copied`)
  }
  await client.query(`SELECT setval(pg_get_serial_sequence('audit', 'id'), max(id)) FROM audit HAVING count(*) > 0`)
  await client.query('COMMIT')
  await client.query('ANALYZE')
  return copied
}

/** Nobody else writes to it until the transaction ends. */
async function requireEmpty(client: Client, place: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'schema_version' ORDER BY 1",
  )
  const names = rows.map(({ name }) => name)
  await client.query("SET LOCAL lock_timeout = '60s'")
  await client.query(`LOCK TABLE ${names.join()} IN SHARE ROW EXCLUSIVE MODE`)
  for (const name of names) {
    const { rows: found } = await client.query(`SELECT 1 FROM ${name} LIMIT 1`)
    if (found.length > 0)
      throw new StartError(`the database ${place} is not empty: its table ${name} has rows. Copy into a new database. Nothing was changed`)
  }
}

/** What PostgreSQL says beside its message quotes rows. */
async function reported<T>(table: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (thrown) {
    if (thrown instanceof StartError) throw thrown
    throw new StartError(`the table ${table} cannot be copied: ${(thrown as Error).message}. Nothing was changed`)
  }
}
