import { expect, test } from 'vitest'
import { openDatabase } from '../../../src/store/postgres/engine/database.ts'
import { Leadership } from '../../../src/store/postgres/tables/leadership.ts'
import { startPostgres } from '../../support/postgres.ts'

const wait = { timeout: 60_000, interval: 10 }

test('one broker leads; another one does when it ends, or the database has lost its connection', async () => {
  await using postgres = await startPostgres()
  await using database = openDatabase(await postgres.database(), { connections: 1 })
  await using first = new Leadership(database)
  await using second = new Leadership(database)
  const leaders = async () => (await Promise.all([first.holds(), second.holds()])).filter(Boolean).length

  const answers = await Promise.all(Array.from({ length: 20 }, () => first.holds()))
  expect(answers).toEqual(answers.map(() => true))
  expect([await first.holds(), await second.holds()]).toEqual([true, false])

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
  await expect.poll(() => second.holds(), wait).toBe(true)
  expect(await first.holds()).toBe(false)
})
