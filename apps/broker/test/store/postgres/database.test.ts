import { BoxofficeError } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../../src/store/postgres/engine/database.ts'
import { migrate } from '../../../src/store/postgres/engine/migrate.ts'
import { MIGRATIONS } from '../../../src/store/postgres/engine/migrations.ts'
import { BrokerLocks } from '../../../src/store/postgres/tables/broker-locks.ts'
import { networkTo } from '../../support/network-to.ts'
import { PASSWORD, type Postgres, startPostgres } from '../../support/postgres.ts'

let postgres: Postgres
beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(() => postgres[Symbol.asyncDispose]())

/** Everything that a log could have of an error. */
const everythingOf = (thrown: unknown): string => {
  const { message, stack, cause, ...fields } = thrown as Error & Record<string, unknown>
  return [message, stack, JSON.stringify(fields), cause === undefined ? '' : everythingOf(cause)].join('\n')
}

const refusal = (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => {
      throw new Error('it was not refused')
    },
    (thrown: Error) => thrown,
  )

const PID = 'SELECT pg_backend_pid() AS pid, pg_sleep(0.05)'
const AWAY = { code: 'BACKEND_UNAVAILABLE', retryAfter: 1 }

describe('migrations of PostgreSQL', () => {
  test('brokers that start at once make the schema once', async () => {
    const url = await postgres.emptyDatabase()
    const migrated = await Promise.all([migrate(url), migrate(url), migrate(url)])
    expect(migrated.map(({ to }) => to)).toEqual([MIGRATIONS.length, MIGRATIONS.length, MIGRATIONS.length])
    expect(migrated.filter(({ from }) => from === 0)).toHaveLength(1)
    expect(await postgres.ask('SELECT version FROM schema_version', [], url)).toEqual([{ version: String(MIGRATIONS.length) }])
  })

  test('a newer schema is refused and left as it is', async () => {
    const url = await postgres.emptyDatabase()
    await postgres.ask('CREATE TABLE schema_version (version bigint NOT NULL)', [], url)
    await postgres.ask('INSERT INTO schema_version VALUES (1000)', [], url)
    const thrown = await refusal(migrate(url))
    expect(thrown.message).toMatch(/was written by a newer Boxoffice \(schema 1000/)
    expect(await postgres.ask("SELECT 1 FROM pg_tables WHERE tablename = 'sessions'", [], url)).toEqual([])
  })

  test.each([
    ['a server that is not there', () => `postgres://somebody:${PASSWORD}@127.0.0.1:1/boxoffice`],
    ['a database that is not there', () => postgres.url.replace(/postgres$/, 'elsewhere')],
    ['a wrong password', () => postgres.url.replace(PASSWORD, `${PASSWORD}-no-more`)],
    ['a text that is no URL', () => `postgres://somebody:${PASSWORD}@:no:port:/boxoffice`],
  ])('a start names %s without the password', async (_, urlOf) => {
    const thrown = await refusal(migrate(urlOf()))
    expect(thrown.name).toBe('StartError')
    expect(thrown.message).toMatch(/^the database /)
    expect(everythingOf(thrown)).not.toContain(PASSWORD)
  })

  test('the audit log is append-only [C-72]', async () => {
    const url = await postgres.database()
    await postgres.ask("INSERT INTO audit (ts, event, outcome) VALUES (1, 'key.create', 'ok')", [], url)
    for (const statement of ['UPDATE audit SET ts = 2', 'DELETE FROM audit', 'TRUNCATE audit'])
      await expect(postgres.ask(statement, [], url)).rejects.toThrow('the audit log is append-only')
    expect(await postgres.ask('SELECT ts FROM audit', [], url)).toEqual([{ ts: '1' }])
  })
})

describe('a PostgreSQL database', () => {
  const open = async (): Promise<Database> => openDatabase(await postgres.database())
  const set = 'INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value'
  const value = async (db: Database, key: string) =>
    (await db.read.rows<{ value: string }>('SELECT value FROM settings WHERE key = $1', [key]))[0]?.value

  test('a transaction whose work throws changes nothing, and its error arrives as it is', async () => {
    await using db = await open()
    const thrown = new Error('of the work')
    const work = db.write(async (tx) => {
      await tx.run(set, ['key', 'changed'])
      throw thrown
    })
    await expect(work).rejects.toBe(thrown)
    expect(await value(db, 'key')).toBeUndefined()
  })

  test('of two transactions that wait for each other both are done, the loser as a whole once more', async () => {
    await using db = await open()
    await db.write(async (tx) => {
      for (const key of ['a', 'b']) await tx.run(set, [key, '0'])
    })
    const add = 'UPDATE settings SET value = (value::int + 1)::text WHERE key = $1'
    let runs = 0
    const waiting: (() => void)[] = []
    /** Until both have their first row; a later run finds it open. */
    const bothAreThere = () =>
      runs > 2
        ? undefined
        : new Promise<void>((resolve) => {
            if (waiting.push(resolve) === 2) for (const go of waiting) go()
          })
    const inOrder = (...keys: string[]) =>
      db.write(async (tx) => {
        runs++
        await tx.run(add, [keys[0]])
        await bothAreThere()
        await tx.run(add, [keys[1]])
      })
    await Promise.all([inOrder('a', 'b'), inOrder('b', 'a')])
    expect([await value(db, 'a'), await value(db, 'b')]).toEqual(['2', '2'])
    // The loser may meet the winner once more.
    expect(runs).toBeGreaterThan(2)
  })

  test('a bigint arrives as a number, and a text with U+0000 is refused as what the request has', async () => {
    await using db = await open()
    expect(await db.read.rows('SELECT 1764000000000::bigint AS at')).toEqual([{ at: 1_764_000_000_000 }])
    await expect(db.once.run(set, ['key', 'a\0b'])).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
  })

  test('connections that are cut, and a server that restarts, are 503 at most, and come back by themselves', async () => {
    await using db = await open()
    const ask = () => value(db, 'key')
    await Promise.all(Array.from({ length: 8 }, ask))
    await postgres.cut()
    await until(ask)
    await postgres.stop()
    const thrown = await refusal(ask())
    expect(thrown).toBeInstanceOf(BoxofficeError)
    expect(thrown).toMatchObject(AWAY)
    expect(everythingOf(thrown)).not.toContain(PASSWORD)
    await expect(db.write((tx) => tx.run(set, ['key', '1']))).rejects.toMatchObject(AWAY)
    await postgres.start()
    await until(ask)
    await db.once.run(set, ['key', '2'])
    expect(await ask()).toBe('2')
  })

  test('a transaction whose connection is cut is 503 and changes nothing', async () => {
    await using db = await open()
    const work = db.write(async (tx) => {
      await tx.run(set, ['key', 'changed'])
      await postgres.cut()
      await tx.run(set, ['key', 'changed again'])
    })
    await expect(work).rejects.toMatchObject(AWAY)
    await until(async () => expect(await value(db, 'key')).toBeUndefined())
  })

  test('a server that begins to refuse writes, as an old primary: nobody goes on with the connections to it', async () => {
    const url = await postgres.database()
    await using db = openDatabase(url, { connections: 4 })
    const pids = () => Promise.all(Array.from({ length: 4 }, async () => (await db.read.rows<{ pid: number }>(PID))[0]?.pid ?? 0))
    const before = await pids()
    expect(new Set(before).size).toBe(4)
    await db.read.rows('SET default_transaction_read_only = on')
    const write = () =>
      db.once.run(set, ['key', '1']).then(
        () => 'done',
        (thrown: unknown) => (isAway(thrown) ? 'away' : Promise.reject(thrown)),
      )
    await expect.poll(() => Promise.all([write(), write(), write(), write()])).toContain('away')
    const after = await pids()
    expect(after.filter((pid) => before.includes(pid))).toEqual([])
    await db.once.run(set, ['key', '2'])
    expect(await value(db, 'key')).toBe('2')
  })

  test('a standby is 503; as soon as the name of the database leads to the primary, so does the next statement', async () => {
    const url = new URL(await postgres.database())
    const primary = Number(url.port)
    await using standby = await postgres.standby()
    await using network = await networkTo(standby.port)
    url.port = String(network.port)
    await using db = openDatabase(url.href)
    await using locks = new BrokerLocks(db)
    await expect(value(db, 'key')).rejects.toMatchObject(AWAY)
    await expect(db.once.run(set, ['key', '1'])).rejects.toMatchObject(AWAY)
    // A lock there would not be the primary's.
    expect(await locks.leads()).toBe(false)
    await expect(migrate(url.href)).rejects.toThrow('it is a standby')
    network.leadTo(primary)
    await db.once.run(set, ['key', '2'])
    expect(await value(db, 'key')).toBe('2')
    expect(await locks.leads()).toBe(true)
  })

  test('a silent server is 503 in bounded time', async () => {
    const url = new URL(await postgres.database())
    await using network = await networkTo(Number(url.port))
    url.port = String(network.port)
    await using db = openDatabase(url.href, { silenceMs: 200 })
    await until(() => db.once.run(set, ['key', '1']))
    network.silence()
    await expect(value(db, 'key')).rejects.toMatchObject(AWAY)
    await expect(db.write((tx) => tx.run(set, ['key', '2']))).rejects.toMatchObject(AWAY)
    network.speak()
    await until(async () => expect(await value(db, 'key')).toBe('1'))
  })
})

/** Until it is not refused with 503. */
async function until(work: () => Promise<unknown>): Promise<void> {
  await expect
    .poll(() =>
      work().then(
        () => 'done',
        (thrown: unknown) => (isAway(thrown) ? 'away' : Promise.reject(thrown)),
      ),
    )
    .toBe('done')
}

const isAway = (thrown: unknown): boolean => thrown instanceof BoxofficeError && thrown.code === 'BACKEND_UNAVAILABLE'
