import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { CreationTerms } from '../../src/domain/creation.ts'
import type { SessionEvent } from '../../src/domain/lifecycle.ts'
import { isLive, type ProvisioningSession, type Session } from '../../src/domain/session.ts'
import type { CreateOutcome } from '../../src/store/session-store.ts'
import { type Db, openDatabase } from '../../src/store/sqlite/engine/database.ts'
import { MIGRATIONS } from '../../src/store/sqlite/engine/migrations.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import { AGENT, costOf, newSession, openCrowd } from '../support/crowd.ts'
import { removeDir, tempDir } from '../support/test-broker.ts'

let directory: string
let store: Store
const path = () => join(directory, 'broker.db')
beforeEach(async () => {
  directory = tempDir()
  store = await openSqliteStore(path())
})
afterEach(async () => {
  await store[Symbol.asyncDispose]()
  removeDir(directory)
})

const LIVE = "state IN ('provisioning', 'active', 'idle', 'suspended')"
const ANY: CreationTerms = { claimFor: 'me', owner: null, maxLive: 1000, labelQuota: null }
const create = (session: ProvisioningSession, terms: CreationTerms): Promise<CreateOutcome> =>
  store.sessions.create(session, terms, { idempotency: null, audit: [], events: [] })

/** What is kept of each number, and what the rows say. */
const counts = (db: Db) => ({
  kept: {
    tenant: db.prepare('SELECT * FROM live_by_tenant ORDER BY 1').raw().all(),
    agent: db.prepare('SELECT * FROM live_by_agent ORDER BY 1').raw().all(),
    label: db.prepare('SELECT * FROM live_by_label ORDER BY 1, 2, 3').raw().all(),
  },
  counted: {
    tenant: db.prepare(`SELECT tenant, count(*) FROM sessions WHERE ${LIVE} GROUP BY 1 ORDER BY 1`).raw().all(),
    agent: db.prepare(`SELECT agent_id, count(*) FROM sessions WHERE ${LIVE} GROUP BY 1 ORDER BY 1`).raw().all(),
    label: db
      .prepare(`SELECT tenant, key, value, count(*) FROM (SELECT s.tenant, l.key, l.value FROM sessions s, json_each(s.labels) l
         WHERE ${LIVE}) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`)
      .raw()
      .all(),
  },
})

/** Sessions of two tenants, at two agents, with some labels, of which some end and one moves to the other agent. */
const mixed = async (): Promise<void> => {
  const { writer } = openCrowd(store)
  const change = async (session: Session, event: SessionEvent): Promise<void> => {
    const { refused } = await writer.change(session, event)
    if (refused !== undefined) throw new Error(refused)
  }
  const labels: Record<string, string>[] = [{}, { box: 'true' }, { box: 'true', team: 'a' }, { box: 'false' }]
  const sessions = Array.from({ length: 24 }, (_, at) =>
    newSession({ tenant: `t${at % 2}`, agentId: at % 3 === 0 ? 'agt_2' : AGENT.id, labels: labels[at % 4] ?? {} }),
  )
  for (const session of sessions) expect(await create(session, ANY)).toEqual({ outcome: 'created' })
  for (const session of sessions.slice(0, 12)) await change(session, { type: 'released', keepWorkspace: false })
  for (const session of sessions.slice(12, 14)) await change(session, { type: 'create_failed', fence: 1, reason: 'x' })
  for (const session of sessions.slice(14, 16))
    await change(session, { type: 'taken_over', fence: 1, brokerId: 'brk_2', agentId: session.agentId === AGENT.id ? 'agt_2' : AGENT.id })
  // One that is refused leaves no trace.
  const again = newSession({ tenant: 't0', scope: sessions.at(-2)?.scope ?? { type: 'thread', id: '' }, labels: { box: 'true' } })
  expect(await create(again, ANY)).toEqual({ outcome: 'exists' })
}

test('the kept numbers of live sessions are those of the rows', async () => {
  await mixed()
  const db = await openDatabase(path())
  const before = counts(db)
  expect(before.kept).toEqual(before.counted)
  expect(before.kept.tenant).toEqual([
    ['t0', 5],
    ['t1', 5],
  ])
  for (const tenant of ['t0', 't1'])
    for (const session of await store.sessions.list({
      tenant,
      principal: null,
      state: null,
      scopeType: null,
      scopeId: null,
      label: null,
      limit: 100,
      after: null,
    }))
      if (isLive(session)) await openCrowd(store).writer.change(session, { type: 'released', keepWorkspace: false })
  expect(counts(db).kept).toEqual({ tenant: [], agent: [], label: [] })
  db.close()
})

test('a database of before gets the numbers of the sessions that it has', async () => {
  await mixed()
  const db = await openDatabase(path())
  const wanted = counts(db).kept
  const migration = MIGRATIONS.find((sql) => sql.includes('CREATE TABLE live_by_tenant'))
  db.exec(`DROP TRIGGER sessions_begin; DROP TRIGGER sessions_end; DROP TRIGGER sessions_move;
    DROP TABLE live_by_tenant; DROP TABLE live_by_agent; DROP TABLE live_by_label`)
  // By itself: those that came after it are there.
  db.exec(migration ?? '')
  expect(counts(db).kept).toEqual(wanted)
  db.close()
})

test('quotas count live sessions of the tenant and of the label', async () => {
  const quota = { ...ANY, maxLive: 3, labelQuota: { key: 'box', value: 'true', max: 1 } }
  const boxed = () => newSession({ labels: { box: 'true' } })
  const first = boxed()
  expect(await create(first, quota)).toEqual({ outcome: 'created' })
  expect(await create(boxed(), quota)).toEqual({ outcome: 'quota', max: 1 })
  expect(await create(newSession(), { ...quota, labelQuota: null })).toEqual({ outcome: 'created' })
  expect(await create(newSession({ tenant: 'other' }), { ...quota, labelQuota: null })).toEqual({ outcome: 'created' })
  await openCrowd(store).writer.change(first, { type: 'released', keepWorkspace: false })
  expect(await create(boxed(), quota)).toEqual({ outcome: 'created' })
  expect(await create(newSession(), { ...quota, labelQuota: null })).toEqual({ outcome: 'created' })
  expect(await create(newSession(), { ...quota, labelQuota: null })).toEqual({ outcome: 'quota', max: 3 })
})

/** Processor time at 5,000 live sessions ÷ at 200. Counted at each creation it was 4.8 for one, and hundreds for a report that read all rows. */
const FLAT = 4

test('a creation, the choice of an agent and a report of two sandboxes cost the same with 5,000 live sessions', async () => {
  const crowd = openCrowd(store)
  const box = { key: 'box', value: 'true' }
  const costs = async (live: number) => {
    await crowd.grow(live)
    return {
      creation: await costOf(() => crowd.add()),
      labeled: await costOf(() => crowd.add(box)),
      byAgent: await costOf(() => store.counts.liveByAgent([AGENT.id]), { calls: 200 }),
      report: await costOf(() => crowd.inventory.reconcile(AGENT, crowd.reports.slice(0, 2), false), { calls: 50 }),
    }
  }
  await costs(50) // compiles what is measured
  const few = await costs(200)
  const many = await costs(5000)
  for (const name of ['creation', 'labeled', 'byAgent', 'report'] as const) expect(many[name] / few[name], name).toBeLessThan(FLAT)
})
