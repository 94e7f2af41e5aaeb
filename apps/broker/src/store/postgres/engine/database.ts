import { hash } from 'node:crypto'
import { retry } from '@boxoffice/kit/retry'
import { sleep } from '@boxoffice/kit/sleep'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { type Client, type ClientBase, Pool, type PoolClient, type QueryConfig, type QueryResult } from 'pg'
import { connect, connectionConfig, cut, prepare } from './connection.ts'
import { failureOf, isBroken, isLostTransaction, isReadOnly } from './failure.ts'

/**
 * Statements of prepared queries. A text is a constant of the code, or put together from such: values are never part of it. It is
 * prepared once per connection, under the hash of itself.
 */
export interface Sql {
  rows<R extends object>(text: string, values?: readonly unknown[]): Promise<R[]>
  /** How many rows were changed. */
  run(text: string, values?: readonly unknown[]): Promise<number>
}

/** A transaction (READ COMMITTED). `appended` notes a session that events were written for: told to listeners after the commit. */
export type Transaction = Sql & { appended(sessionId: string): void }

/** Runs `work` in a transaction, and runs it again as a whole, a few times, when it lost to another one (40P01, 40001). */
export type Write = <T>(work: (tx: Transaction) => Promise<T>) => Promise<T>

/** What the broker asks PostgreSQL by. While the database is away each call fails with 503 and Retry-After; it needs no help to come back. */
export type Database = AsyncDisposable & {
  read: Sql
  /** Each statement is a transaction of its own, in one round trip; it is run again when it lost to another one. */
  once: Sql
  write: Write
  /** After a commit: listeners hear of these sessions. `write` calls it by itself, `once` cannot. */
  appended(sessionIds: readonly string[]): void
  /** Hears of the sessions that this process has committed events for. */
  onAppended(listener: (sessionIds: readonly string[]) => void): () => void
  /** A connection outside the pool; see `connect`. */
  connect(): Promise<Client>
  /**
   * The broker is ending: from now on a database that is silent for a few seconds counts as gone, so that nothing waits for it. All
   * connections are cut then, and what is asked fails at once.
   */
  closing(): void
}

/** Connections of one broker; more only wait for the database's processors. */
const MAX_CONNECTIONS = 16
/** How often a transaction that lost is run. */
const MAX_RUNS = 10
/** The wait before the second run, at most; later ones are longer. */
const LOST_MS = 5
/** How long the connections may take to end. */
const END_MS = 2000
/** How long the database may be silent while the broker ends, and how often it is asked then. */
const CLOSING_SILENCE_MS = 5000
const CLOSING_PROBE_MS = 500

/** A connection of the pool while it is in use. `isBroken`: its state is unknown, so that nobody may have it again. */
type Held = { client: PoolClient; isBroken: boolean }

/** The pool of a database whose schema is there. It connects when it is asked something. */
export function openDatabase(
  url: string,
  { connections = MAX_CONNECTIONS, silenceMs }: { connections?: number; silenceMs?: number } = {},
): Database {
  // The types have `onConnect` without its promise, which the pool waits for.
  const onConnect = prepare as (client: ClientBase) => void
  const pool = new Pool({ ...connectionConfig(url, silenceMs), max: connections, idleTimeoutMillis: 60_000, onConnect })
  /** Those that are open, and of these the ones that nobody may have again: they lead to a server that only reads. */
  const clients = new Set<ClientBase>()
  const stale = new WeakSet<ClientBase>()
  /** Aborted when the broker ends and the database is silent. */
  const gone = new AbortController()
  const disposed = new AbortController()
  const cutAll = (): void => {
    for (const client of clients) cut(client)
  }
  // An idle connection is lost: the pool has dropped it, and the next statement gets a new one. Not logged: the error names the client.
  pool.on('error', () => {})
  // The same for one that is in use, between two statements; the next one fails.
  pool.on('connect', (client) => {
    clients.add(client)
    client.on('error', () => {})
  })
  pool.on('remove', (client) => void clients.delete(client))
  /** What the database and its driver have thrown, apart from what the work of a transaction throws. */
  const failures = new WeakSet<object>()
  const failed = (thrown: unknown): unknown => {
    failures.add(thrown as object)
    return thrown
  }
  const listeners = new Set<(sessionIds: readonly string[]) => void>()
  const appended = (sessionIds: readonly string[]): void => {
    for (const listener of listeners) listener(sessionIds)
  }

  const ask = async (held: Held, query: QueryConfig): Promise<QueryResult> => {
    try {
      return await held.client.query(query)
    } catch (thrown) {
      if (isBroken(thrown)) held.isBroken = true
      // After a failover others may lead there too; new ones lead to the primary as soon as its name does.
      if (isReadOnly(thrown)) for (const client of clients) stale.add(client)
      throw failed(thrown)
    }
  }
  const acquire = async (): Promise<PoolClient> => {
    for (;;) {
      if (gone.signal.aborted) throw failed(new Error('the database is silent'))
      const client = await pool.connect().catch((thrown: unknown) => Promise.reject(failed(thrown)))
      if (!stale.has(client)) return client
      client.release(true)
    }
  }
  const withClient = async <T>(work: (held: Held) => Promise<T>): Promise<T> => {
    const client = await acquire()
    const held: Held = { client, isBroken: false }
    try {
      return await work(held)
    } finally {
      client.release(held.isBroken || stale.has(client))
    }
  }
  const again = <T>(work: () => Promise<T>): Promise<T> =>
    retry(work, {
      waitMs: (thrown, runs) => {
        if (!failures.has(thrown as object)) return undefined
        if (isLostTransaction(thrown) && runs < MAX_RUNS) return Math.random() * LOST_MS * runs
        throw failureOf(thrown)
      },
    })

  const transaction = async <T>(held: Held, work: (tx: Transaction) => Promise<T>): Promise<T> => {
    const ids = new Set<string>()
    let result: T
    await ask(held, BEGIN)
    try {
      result = await work({ ...sqlOf((query) => ask(held, query)), appended: (id) => void ids.add(id) })
    } catch (thrown) {
      await ask(held, ROLLBACK).catch(() => {
        held.isBroken = true
      })
      throw thrown
    }
    // PostgreSQL answers otherwise where a statement has failed and the work went on.
    if ((await ask(held, COMMIT)).command !== 'COMMIT') throw new Error('a statement of the transaction had failed before its commit')
    if (ids.size > 0) appended([...ids])
    return result
  }

  /** Also a refusal is an answer. */
  const answers = (): Promise<boolean> => once.rows('SELECT 1').then(isTrue, isTrue)
  const watchSilence = async (): Promise<void> => {
    while (await withTimeout(answers(), CLOSING_SILENCE_MS, () => false)) await sleep(CLOSING_PROBE_MS, disposed.signal)
    gone.abort()
    // Who waits for a connection of the pool makes one now, in vain.
    pool.options.connectionTimeoutMillis = 1
    cutAll()
  }

  const once = sqlOf((query) => again(() => withClient((held) => ask(held, query))))
  return {
    read: once,
    once,
    write: (work) => again(() => withClient((held) => transaction(held, work))),
    appended,
    onAppended(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async connect() {
      if (gone.signal.aborted) throw new Error('the database is silent')
      const client = await connect(url)
      clients.add(client)
      client.once('end', () => clients.delete(client))
      return client
    },
    closing: () => void watchSilence().catch(() => {}),
    async [Symbol.asyncDispose]() {
      disposed.abort()
      await withTimeout(pool.end(), END_MS, cutAll)
    },
  }
}

const isTrue = (): true => true

const BEGIN = { text: 'BEGIN ISOLATION LEVEL READ COMMITTED' }
const COMMIT = { text: 'COMMIT' }
const ROLLBACK = { text: 'ROLLBACK' }

const names = new Map<string, string>()

function nameOf(text: string): string {
  const known = names.get(text)
  if (known !== undefined) return known
  const name = hash('sha256', text, 'base64url').slice(0, 24)
  names.set(text, name)
  return name
}

function sqlOf(ask: (query: QueryConfig) => Promise<QueryResult>): Sql {
  const prepared = (text: string, values: readonly unknown[]) => ask({ name: nameOf(text), text, values: values as unknown[] })
  return {
    rows: async <R extends object>(text: string, values: readonly unknown[] = []) => (await prepared(text, values)).rows as R[],
    run: async (text, values = []) => (await prepared(text, values)).rowCount ?? 0,
  }
}
