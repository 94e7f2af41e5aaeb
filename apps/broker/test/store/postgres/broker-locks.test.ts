import { expect, test } from 'vitest'
import { openDatabase } from '../../../src/store/postgres/engine/database.ts'
import { BrokerLocks, keyOf, PRESENT } from '../../../src/store/postgres/tables/broker-locks.ts'
import { startPostgres } from '../../support/postgres.ts'

const wait = { timeout: 60_000, interval: 10 }

test('one broker leads; another one does when it ends, or the database has lost its connection', async () => {
  await using postgres = await startPostgres()
  await using database = openDatabase(await postgres.database(), { connections: 1 })
  await using first = new BrokerLocks(database)
  await using second = new BrokerLocks(database)
  const leaders = async () => (await Promise.all([first.leads(), second.leads()])).filter(Boolean).length

  const answers = await Promise.all(Array.from({ length: 20 }, () => first.leads()))
  expect(answers).toEqual(answers.map(() => true))
  expect([await first.leads(), await second.leads()]).toEqual([true, false])

  await postgres.cut()
  // Neither knows yet that its connection is lost.
  const seen = new Set<number>()
  await expect.poll(async () => seen.add(await leaders()).has(1), wait).toBe(true)
  expect(seen).not.toContain(2)

  await postgres.stop()
  expect(await leaders()).toBe(0)
  await postgres.start()
  await expect.poll(leaders, wait).toBe(1)

  await first[Symbol.asyncDispose]()
  await expect.poll(() => second.leads(), wait).toBe(true)
  expect(await first.leads()).toBe(false)
})

test('a broker is present for as long as the database has its connection', async () => {
  await using postgres = await startPostgres()
  await using database = openDatabase(await postgres.database(), { connections: 1 })
  await using first = new BrokerLocks(database)
  await using second = new BrokerLocks(database)
  const present = async () =>
    (await database.read.rows<{ id: string }>(PRESENT, [['a', 'b', 'c'], ['a', 'b', 'c'].map(keyOf)])).map(({ id }) => id).toSorted()

  await Promise.all([first.announce('a'), first.announce('a'), second.announce('b'), first.leads()])
  expect(await present()).toEqual(['a', 'b'])
  await second[Symbol.asyncDispose]()
  await expect.poll(present, wait).toEqual(['a'])

  await postgres.cut()
  await expect.poll(() => present().catch(() => []), wait).toEqual([])
  // With its next heartbeat.
  await expect.poll(() => first.announce('a').then(present), wait).toEqual(['a'])
})
