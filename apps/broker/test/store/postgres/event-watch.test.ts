import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../../src/store/postgres/engine/database.ts'
import { EventWatch } from '../../../src/store/postgres/events/event-watch.ts'
import { type Postgres, startPostgres } from '../../support/postgres.ts'

let postgres: Postgres
let one: Database
let other: Database

beforeAll(async () => {
  postgres = await startPostgres()
  const url = await postgres.database()
  one = openDatabase(url, { connections: 2 })
  other = openDatabase(url, { connections: 2 })
})
afterAll(async () => {
  await one[Symbol.asyncDispose]()
  await other[Symbol.asyncDispose]()
  await postgres[Symbol.asyncDispose]()
})

const NEVER_MS = 3_600_000
const wait = { timeout: 60_000, interval: 10 }

/** Counts how often each of the sessions is told of. */
function follow(watch: EventWatch, sessionIds: readonly string[]) {
  const told = new Map(sessionIds.map((id) => [id, 0]))
  for (const id of sessionIds) watch.watch(id, () => told.set(id, (told.get(id) ?? 0) + 1))
  return {
    told,
    forget: () => {
      for (const id of sessionIds) told.set(id, 0)
    },
    silent: () => [...told].filter(([, times]) => times === 0),
  }
}

/** A watch that listens: what is committed from here on is heard. */
async function listening(database: Database, pollMs = NEVER_MS): Promise<EventWatch> {
  const watch = new EventWatch(database, { pollMs })
  const { silent } = follow(watch, ['ssn_first'])
  // Whoever watches is told when the connection listens.
  await expect.poll(silent, wait).toEqual([])
  return watch
}

const commit = (database: Database, sessionIds: readonly string[]): Promise<void> =>
  database.write(async (tx) => {
    await tx.rows('SELECT 1 AS one')
    for (const id of sessionIds) tx.appended(id)
  })

test('a commit is told to those who watch its session, here and at the other broker, and to nobody else', async () => {
  await using here = await listening(one)
  await using there = await listening(other)
  const [own, far, else_] = [follow(here, ['ssn_a']), follow(there, ['ssn_a']), follow(there, ['ssn_b', 'ssn_a_'])]
  await commit(one, ['ssn_a'])
  await expect.poll(own.silent, wait).toEqual([])
  await expect.poll(far.silent, wait).toEqual([])
  expect(else_.silent()).toHaveLength(2)
  // One's own notice comes back, and is known already.
  await commit(other, ['ssn_b'])
  await expect.poll(() => else_.told.get('ssn_b'), wait).toBe(1)
  expect(own.told.get('ssn_a')).toBe(1)
})

test('one transaction with more sessions than a notice takes tells of all of them', async () => {
  await using _ = await listening(one)
  await using there = await listening(other)
  const ids = Array.from({ length: 2000 }, (_, at) => `ssn_${'x'.repeat(36)}_${at}`)
  const far = follow(there, ids)
  await commit(one, ids)
  await expect.poll(far.silent, wait).toEqual([])
})

test('a connection that is lost comes back: what may have been missed is looked at, and notices are heard again', async () => {
  await using _ = await listening(one)
  await using there = await listening(other)
  const far = follow(there, ['ssn_cut'])
  await postgres.cut()
  await expect.poll(far.silent, wait).toEqual([])
  await expect
    .poll(async () => {
      far.forget()
      await commit(one, ['ssn_cut'])
      return expect
        .poll(far.silent, { timeout: 200, interval: 10 })
        .toEqual([])
        .then(
          () => true,
          () => false,
        )
    }, wait)
    .toBe(true)
})

test('what no notice has told is found by the poll, once', async () => {
  await using there = await listening(other, 20)
  const insert = `INSERT INTO sessions (id, tenant, scope_type, scope_id, state, owner, profile_hash, labels, relay, shape, created_by,
      created_at, hard_expires_at, lease_expires_at, last_activity_at, due_at, agent_id)
    VALUES ('ssn_poll', 't', 'thread', 'poll', 'active', 'o', 'p', '{}', 'auto', 'full', 'o', 1, 1, 1, 1, 1, 'agt')`
  await one.write((tx) => tx.run(insert))
  const far = follow(there, ['ssn_poll'])
  await expect.poll(far.silent, wait).toEqual([])
  far.forget()
  await one.write((tx) => tx.run("UPDATE sessions SET event_seq = event_seq + 1 WHERE id = 'ssn_poll'"))
  await expect.poll(() => far.told.get('ssn_poll'), wait).toBe(1)
})

test('a broker that ends tells of what it has just committed', async () => {
  await using there = await listening(other)
  const far = follow(there, ['ssn_last'])
  {
    await using _ = await listening(one)
    await commit(one, ['ssn_last'])
  }
  await expect.poll(far.silent, wait).toEqual([])
})
