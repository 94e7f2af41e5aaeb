import type { Duplex } from 'node:stream'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { Client, type ClientBase, type ClientConfig, types } from 'pg'
import { StartError } from '../../../host/start-error.ts'

/** A new connection, or one of the pool that is free, comes within this: long, as a busy machine takes seconds to make one. */
const CONNECT_MS = 10_000
/** The database ends a statement, with its wait for locks, after this. */
const STATEMENT_MS = 10_000
/** A database that is silent altogether counts as away after this: longer than a statement may take, so that its own word comes first. */
const SILENCE_MS = 12_000
/** A broker that is stopped in the middle of a transaction keeps its locks for this long. */
const IDLE_IN_TRANSACTION_MS = 20_000
/**
 * The database ends a connection whose machine has vanished after 5 + 3 × 3 s, and with it the locks that the connection holds. By
 * Linux's defaults that takes 2 hours.
 */
const KEEPALIVE = { tcp_keepalives_idle: '5', tcp_keepalives_interval: '3', tcp_keepalives_count: '3', tcp_user_timeout: '14000' }
/** How long a connection may take to end; one to a silent database is cut then. */
const END_MS = 2000

const INT8 = 20

/** How each connection of a broker is made; the database may be silent for `silenceMs`. `bigint` arrives as a number: times, counts and row numbers are below 2⁵³. */
export function connectionConfig(url: string, silenceMs = SILENCE_MS): ClientConfig & { connectionTimeoutMillis: number } {
  return {
    connectionString: url,
    application_name: 'boxoffice',
    connectionTimeoutMillis: Math.min(CONNECT_MS, silenceMs),
    statement_timeout: STATEMENT_MS,
    query_timeout: silenceMs,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5000,
    types: {
      getTypeParser: (oid: number, format?: 'text' | 'binary') =>
        oid === INT8 && format !== 'binary' ? Number : types.getTypeParser(oid, format as 'text'),
    },
  } as ClientConfig & { connectionTimeoutMillis: number }
}

// By statements: the `options` of a URL would replace those of the configuration.
const PREPARE = `SELECT ${Object.entries(KEEPALIVE)
  .map(([name, value]) => `set_config('${name}', '${value}', false)`)
  .join(', ')}, pg_is_in_recovery() AS standby`

/**
 * What a new connection needs before anything else is asked over it. Throws when it leads to a standby, such as an old primary after a
 * failover: what that one says may be old, and its locks are not those of the primary.
 */
export async function prepare(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ standby: boolean }>(PREPARE)
  if (rows[0]?.standby) throw new Error('it is a standby, which only reads')
}

/** Ends a connection in bounded time, also one to a database that is silent. */
export async function endConnection(client: Client): Promise<void> {
  await withTimeout(
    client.end().catch(() => {}),
    END_MS,
    () => cut(client),
  )
}

/** Ends a connection without a word to the database; what is asked over it fails. */
export function cut(client: ClientBase): void {
  ;(client as unknown as { connection: { stream: Duplex } }).connection.stream.destroy()
}

/**
 * A connection outside the pool: to listen, for a lock that a connection holds, or for what takes long (`patient`: no statement is
 * ended). Its owner ends it; it emits `end` when it is lost.
 */
export async function connect(url: string, { patient = false } = {}): Promise<Client> {
  const config = connectionConfig(url)
  const client = new Client(patient ? { ...config, statement_timeout: 0, query_timeout: 0 } : config)
  // A lost connection is told by `end`, and by the query that fails; an `error` that nobody hears would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    await prepare(client)
  } catch (thrown) {
    await endConnection(client)
    throw thrown
  }
  return client
}

/** Where a URL leads, for messages: host and database, never the password. */
export function placeOf(url: string): string {
  try {
    const { host, port, database } = new Client({ connectionString: url })
    return `${host}:${port}/${database ?? ''}`
  } catch {
    // The parser's own error would quote the URL.
    throw new StartError('the database URL cannot be read; it looks like postgres://USER:PASSWORD@HOST:PORT/DATABASE')
  }
}
