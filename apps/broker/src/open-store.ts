import { join } from 'node:path'
import type { ResolvedBrokerConfig } from './config/config.ts'
import { DATABASE_FILE } from './host/data-dir.ts'
import { DatabaseClock } from './host/database-clock.ts'
import type { Log } from './host/log.ts'
import { ownSecretKeyFile } from './host/make-secret-key.ts'
import { SecretKeys } from './host/secret-keys.ts'
import { openPostgresStore } from './store/postgres/postgres-store.ts'
import { openSqliteStore } from './store/sqlite/sqlite-store.ts'
import type { Store } from './store/store.ts'
import { KeyFiles } from './tokens/key-files.ts'
import type { SigningKeyPlace } from './tokens/keys.ts'
import { SealedKeys } from './tokens/sealed-keys.ts'

type Settings = Pick<ResolvedBrokerConfig, 'dataDir' | 'databaseUrl' | 'migrate'>

/**
 * The store that the settings name: a PostgreSQL database, else a file of the data directory. Throws `StartError`. `pollMs`: how often
 * it looks for events of other brokers.
 */
export async function openStore({ dataDir, databaseUrl, migrate: when }: Settings, pollMs?: number): Promise<Store> {
  const times = pollMs === undefined ? {} : { pollMs }
  if (databaseUrl === undefined) return openSqliteStore(join(dataDir, DATABASE_FILE), times)
  return openPostgresStore(databaseUrl, { ...times, mayMigrate: when === 'start' })
}

/** The clock that a store's times are of: of PostgreSQL that of the database, of a file that of this machine, as it is on it. */
export async function storeClock(
  { databaseUrl }: Pick<Settings, 'databaseUrl'>,
  { brokers }: Pick<Store, 'brokers'>,
  log: Log,
  parts: AsyncDisposableStack,
): Promise<() => number> {
  return databaseUrl === undefined ? Date.now : parts.use(await DatabaseClock.start({ database: brokers, log })).now
}

/** Where the signing keys of a store are: rows of the database, else files of the data directory. Throws `StartError`. */
export function signingKeyPlace(
  { dataDir, secretKeyFile = '' }: Pick<ResolvedBrokerConfig, 'dataDir' | 'secretKeyFile'>,
  { signingKeys }: Pick<Store, 'signingKeys'>,
  log: Log,
): SigningKeyPlace {
  if (signingKeys === null) return new KeyFiles(dataDir)
  return new SealedKeys({ store: signingKeys, secrets: new SecretKeys(secretKeyFile), log })
}

/**
 * The keys that secrets of tenants are sealed under: of the secret key file, else of a file of the data directory, which is made when
 * one is sealed or opened for the first time. Throws `StartError` where that fails.
 */
export function tenantSecretKeys({ dataDir, secretKeyFile }: Pick<ResolvedBrokerConfig, 'dataDir' | 'secretKeyFile'>): () => SecretKeys {
  let keys: SecretKeys | undefined
  return () => {
    keys ??= new SecretKeys(secretKeyFile ?? ownSecretKeyFile(dataDir))
    return keys
  }
}
