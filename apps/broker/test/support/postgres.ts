import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, chownSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { migrate } from '../../src/store/postgres/engine/migrate.ts'

/** In URLs, so that a test can see that no log or error has it. */
export const PASSWORD = 'a-password-of-tests'

const BIN = '/usr/lib/postgresql'
const START_MS = 60_000

export type Postgres = AsyncDisposable & {
  /** Of the database `postgres`. */
  url: string
  /** The URL of a new database with the schema of Boxoffice, which nobody else has. */
  database(): Promise<string>
  /** The URL of a new database without anything. */
  emptyDatabase(): Promise<string>
  /** Asks a database something by SQL; by default the database `postgres`. */
  ask<R extends object>(text: string, values?: unknown[], url?: string): Promise<R[]>
  /** Ends the server as an operator does: clients are disconnected, what is committed stays. */
  stop(): Promise<void>
  start(): Promise<void>
  restart(): Promise<void>
  /** Ends the connections of every client but this one's own. */
  cut(): Promise<void>
  /** A server that follows this one and only reads, as an old primary does after a failover. */
  standby(): Promise<AsyncDisposable & { port: number }>
}

/**
 * A real PostgreSQL of one's own in a new directory, on a port of loopback. It ends with this process, however that ends. As root it runs
 * as the user `postgres`, since it refuses root. `address`: of this machine, where it listens besides.
 */
export async function startPostgres({ address }: { address?: string } = {}): Promise<Postgres> {
  const bin = join(BIN, newest(readdirSync(BIN)), 'bin')
  const directory = mkdtempSync(join(tmpdir(), 'boxoffice-pg-'))
  const user = process.getuid?.() === 0 ? userIds('postgres') : undefined
  if (user !== undefined) chownSync(directory, user.uid, user.gid)
  const data = join(directory, 'data')
  const passwordFile = join(directory, 'password')
  writeFileSync(passwordFile, PASSWORD)
  if (user !== undefined) chownSync(passwordFile, user.uid, user.gid)
  const as = { ...user, cwd: directory, env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', TZ: 'UTC' } } as const
  execFileSync(
    join(bin, 'initdb'),
    [
      ...['--pgdata', data, '--username', 'postgres', '--pwfile', passwordFile, '--auth-host', 'scram-sha-256', '--auth-local', 'trust'],
      ...['--encoding', 'UTF8', '--locale', 'C.UTF-8', '--no-sync', '--wal-segsize', '1', '--no-instructions'],
    ],
    { ...as, stdio: ['ignore', 'ignore', 'inherit'] },
  )
  if (address !== undefined) appendFileSync(join(data, 'pg_hba.conf'), 'host all all samenet scram-sha-256\n')
  const addresses = ['127.0.0.1', ...(address === undefined ? [] : [address])].join()
  let port = 0
  let server: ChildProcess | undefined
  let databases = 0
  let template: Promise<string> | undefined
  /** One database is made at a time: the template may have no other user. */
  let making: Promise<unknown> = Promise.resolve()

  const urlOf = (database: string, at = port) => `postgres://postgres:${PASSWORD}@127.0.0.1:${at}/${database}`

  const ask = <R extends object>(text: string, values?: unknown[], url = urlOf('postgres')): Promise<R[]> =>
    askPostgres<R>(url, text, values)

  /** Starts the server of a data directory; resolves when it answers. */
  const serve = async (directoryOfData: string, listenPort: number): Promise<ChildProcess> => {
    const args = [
      '-D',
      directoryOfData,
      '-k',
      directory,
      '-p',
      String(listenPort),
      '-c',
      `listen_addresses=${addresses}`,
      '-c',
      'fsync=off',
    ]
    args.push('-c', 'max_connections=200', '-c', 'deadlock_timeout=100ms', '-c', 'shared_buffers=32MB', '-c', 'log_min_messages=fatal')
    // The shell stops the server when its input ends, which is at the latest when this process does.
    const script = '"$@" & server=$!; read -r _; kill -INT $server; wait $server'
    const started = spawn('sh', ['-c', script, 'sh', join(bin, 'postgres'), ...args], { ...as, stdio: ['pipe', 'ignore', 'ignore'] })
    const end = performance.now() + START_MS
    for (;;) {
      try {
        await ask('SELECT 1', [], urlOf('postgres', listenPort))
        return started
      } catch (thrown) {
        if (performance.now() > end) throw thrown
        await delay(20)
      }
    }
  }
  const end = async (running: ChildProcess): Promise<void> => {
    const ended = once(running, 'exit')
    running.stdin?.end()
    await ended
  }
  const start = async (): Promise<void> => {
    server = await serve(data, port)
  }
  const stop = async (): Promise<void> => {
    if (server === undefined) return
    await end(server)
    server = undefined
  }
  const standby = async () => {
    const copy = mkdtempSync(join(directory, 'standby-'))
    if (user !== undefined) chownSync(copy, user.uid, user.gid)
    const from = ['--host', '127.0.0.1', '--port', String(port), '--username', 'postgres']
    execFileSync(join(bin, 'pg_basebackup'), ['--pgdata', copy, ...from, '--write-recovery-conf', '--checkpoint', 'fast', '--no-sync'], {
      ...as,
      env: { ...as.env, PGPASSWORD: PASSWORD },
    })
    const own = await freePort()
    const running = await serve(copy, own)
    return { port: own, [Symbol.asyncDispose]: () => end(running) }
  }

  const make = (from?: string): Promise<string> => {
    const name = `boxoffice_${++databases}`
    const made = making.then(async () => {
      await ask(`CREATE DATABASE ${name}${from === undefined ? '' : ` TEMPLATE ${from}`}`)
      return name
    })
    making = made.catch(() => {})
    return made
  }
  const makeTemplate = async (): Promise<string> => {
    const name = await make()
    await migrate(urlOf(name))
    return name
  }

  port = await freePort()
  await start()
  return {
    get url() {
      return urlOf('postgres')
    },
    ask,
    async database() {
      template ??= makeTemplate()
      return urlOf(await make(await template))
    },
    emptyDatabase: async () => urlOf(await make()),
    stop,
    start,
    standby,
    async restart() {
      await stop()
      await start()
    },
    async cut() {
      await ask(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
      )
    },
    async [Symbol.asyncDispose]() {
      await stop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Asks a database something by SQL, over a connection of its own. */
export const askPostgres = async <R extends object>(url: string, text: string, values: unknown[] = []): Promise<R[]> => {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: START_MS })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(text, values)).rows as R[]
  } finally {
    await client.end()
  }
}

const newest = (versions: string[]): string => {
  const sorted = versions
    .map(Number)
    .filter(Number.isInteger)
    .sort((a, b) => b - a)
  if (sorted[0] === undefined) throw new Error(`there is no PostgreSQL in ${BIN}; npm run setup -- --tests installs it`)
  return String(sorted[0])
}

const userIds = (name: string): { uid: number; gid: number } => ({
  uid: Number(execFileSync('id', ['-u', name], { encoding: 'utf8' })),
  gid: Number(execFileSync('id', ['-g', name], { encoding: 'utf8' })),
})

async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
