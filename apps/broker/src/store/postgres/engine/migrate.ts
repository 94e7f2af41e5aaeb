import type { Client } from 'pg'
import { StartError } from '../../../host/start-error.ts'
import { connect, placeOf } from './connection.ts'
import { MIGRATIONS } from './migrations.ts'

/** Brokers that start at once take turns; a number that no other lock of ours has, as those are hashes. */
const LOCK = 0x626f786f

export type Migrated = { from: number; to: number }

/**
 * Brings the database's schema up to date, and says from which version to which. Throws `StartError`, which names the database without
 * its password, when it does not answer, is newer than this program, or is not in UTF-8; with `mayChange: false` also when it is older.
 */
export async function migrate(url: string, { mayChange = true } = {}): Promise<Migrated> {
  const place = placeOf(url)
  let client: Client
  try {
    client = await connect(url, { patient: true })
  } catch (thrown) {
    throw new StartError(`the database ${place} does not answer: ${why(thrown)}; check --database-url and that PostgreSQL runs there`)
  }
  try {
    return await migrateWith(client, place, mayChange)
  } catch (thrown) {
    if (thrown instanceof StartError) throw thrown
    throw new StartError(`the database ${place} cannot be brought up to date: ${why(thrown)}. It is as its last finished migration left it`)
  } finally {
    await client.end().catch(() => {})
  }
}

async function migrateWith(client: Client, place: string, mayChange: boolean): Promise<Migrated> {
  const encoding = (await client.query<{ server_encoding: string }>('SHOW server_encoding')).rows[0]?.server_encoding
  if (encoding !== 'UTF8') throw new StartError(`the database ${place} has the encoding ${encoding}; make one with ENCODING 'UTF8'`)
  await client.query("SET lock_timeout = '60s'")
  // Held by the connection, and gone with it.
  await client.query('SELECT pg_advisory_lock($1)', [LOCK])
  const from = await schemaVersion(client)
  if (from > MIGRATIONS.length)
    throw new StartError(
      `the database ${place} was written by a newer Boxoffice (schema ${from}, this one knows ${MIGRATIONS.length}); start that version. It was not changed`,
    )
  if (from < MIGRATIONS.length && !mayChange)
    throw new StartError(
      `the database ${place} has schema ${from}, this program needs ${MIGRATIONS.length}; run: boxoffice migrate --database-url URL`,
    )
  for (let next = from; next < MIGRATIONS.length; next++) {
    await client.query('BEGIN')
    // A failure ends the connection, and the transaction with it.
    await client.query('CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)')
    await client.query(MIGRATIONS[next] ?? '')
    await client.query('DELETE FROM schema_version')
    await client.query('INSERT INTO schema_version VALUES ($1)', [next + 1])
    await client.query('COMMIT')
  }
  return { from, to: MIGRATIONS.length }
}

async function schemaVersion(client: Client): Promise<number> {
  const { rows } = await client.query<{ there: boolean }>("SELECT to_regclass('schema_version') IS NOT NULL AS there")
  if (!rows[0]?.there) return 0
  return (await client.query<{ version: number }>('SELECT version FROM schema_version')).rows[0]?.version ?? 0
}

/** The message of the database or the system alone. A failed connection to several addresses has one per address. */
const why = (thrown: unknown): string => (thrown instanceof AggregateError ? thrown.errors.map(why).join(', ') : (thrown as Error).message)
