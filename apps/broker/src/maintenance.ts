import { join } from 'node:path'
import { brokerDirectory, DATABASE_FILE } from './host/data-dir.ts'
import { OWN_FILE } from './host/make-secret-key.ts'
import { bothRekeyed, type Rekeyed } from './host/reseal.ts'
import { SecretKeys } from './host/secret-keys.ts'
import { resealSecrets } from './secrets/reseal-secrets.ts'
import { openDatabase } from './store/postgres/engine/database.ts'
import { type Migrated, migrate } from './store/postgres/engine/migrate.ts'
import { postgresMcpServers } from './store/postgres/tables/mcp-servers.ts'
import { postgresSecrets } from './store/postgres/tables/secrets.ts'
import { postgresSigningKeys } from './store/postgres/tables/signing-keys.ts'
import { openSqliteStore } from './store/sqlite/sqlite-store.ts'
import { resealDefinitions } from './surfaces/mcp/peers/definitions.ts'
import { rekey } from './tokens/rekey.ts'

/** Brings the schema of a PostgreSQL database up to date; repeatable. Throws `StartError` that never has the password. */
export const migrateDatabase = (databaseUrl: string): Promise<Migrated> => migrate(databaseUrl)

/** Seals the secrets of a PostgreSQL database under the first key of the file; repeatable, beside running brokers. Throws `StartError`. */
export async function rekeyDatabase(databaseUrl: string, secretKeyFile: string): Promise<Rekeyed> {
  const secrets = new SecretKeys(secretKeyFile)
  await migrate(databaseUrl, { mayChange: false })
  await using database = openDatabase(databaseUrl, { connections: 1 })
  const keys = await rekey(postgresSigningKeys(database), secrets)
  const servers = await resealDefinitions(postgresMcpServers(database), secrets)
  const values = await resealSecrets(postgresSecrets(database), secrets)
  return [servers, values].reduce(bothRekeyed, keys)
}

/**
 * The same for a broker without PostgreSQL, by its data directory or the directory above it, also while it runs. Its signing keys are files.
 * `secretKeyFile`: by default that of the directory.
 */
export async function rekeyDirectory(from: string, secretKeyFile?: string): Promise<Rekeyed> {
  const directory = brokerDirectory(from)
  const secrets = new SecretKeys(secretKeyFile ?? join(directory, OWN_FILE))
  await using store = await openSqliteStore(join(directory, DATABASE_FILE))
  return await resealSecrets(store.secrets, secrets)
}
