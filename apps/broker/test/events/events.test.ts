import { join } from 'node:path'
import type { JournalEntry } from '@boxoffice/protocol'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { type EventReader, readEvents } from '../support/event-reader.ts'
import type { FakeAgent, Kept } from '../support/fake-agent.ts'
import { removeDir, startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
let readers: EventReader[]
let others: TestBroker[]

const begin = async (...options: Parameters<typeof startTestBroker>) => {
  broker = await startTestBroker(...options)
  agent = await broker.startAgent({ heartbeat: false })
}
beforeEach(() => {
  readers = []
  others = []
})
afterEach(async () => {
  await Promise.all(readers.map((reader) => reader.close()))
  for (const other of others) await other.stop()
  await broker.stop()
})

const follow = async (id: string, last?: number | string, { url, key }: { url: string; key: string } = broker): Promise<EventReader> => {
  const reader = await readEvents(url, key, id, last === undefined ? {} : { 'last-event-id': String(last) })
  readers.push(reader)
  return reader
}

let seq = 0
const entry = (session: { session_id: string; sandbox: { id: string } }, type: string, data: object, more: Partial<JournalEntry> = {}) =>
  ({ seq: ++seq, age_ms: 0, type, session_id: session.session_id, sandbox_id: session.sandbox.id, data, ...more }) as JournalEntry
const exit = (execId: string, more: object = {}) => ({
  kind: 'exec',
  exec_id: execId,
  exit_code: 0,
  signal: null,
  reason: 'exited',
  kill_cause: null,
  oom_killed: false,
  duration_ms: 5,
  ...more,
})
const tell = (...entries: JournalEntry[]) => agent.heartbeat([], entries)
const audited = async (event: string) => (await broker.get<{ entries: Record<string, unknown>[] }>(`/v1/audit?event=${event}`)).body.entries

test('[2.4] what happens to a session is told in its order, from its beginning', async () => {
  await begin()
  const session = await broker.ensure('t')
  const reader = await follow(session.session_id)
  expect([reader.status, reader.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
  await reader.until(() => reader.events.length === 3)
  expect(reader.types()).toEqual(['state provisioning', 'state active', 'lease'])
  expect(reader.events[1]?.data).toEqual({
    session_id: session.session_id,
    ts: expect.stringMatching(/^\d{4}-.*Z$/),
    state: 'active',
    previous: 'provisioning',
    mode: null,
    reason: null,
  })
  // Nobody has used it since.
  for (const sandbox of agent.sandboxes.values()) sandbox.activity = { running: 0, attached: 0, idle_ms: 1e9 }
  await broker.advance(61_000)
  await broker.broker.reap()
  await reader.until(() => reader.types().includes('state idle'))
  await broker.advance(900_000)
  await broker.broker.reap()
  await reader.until(() => reader.types().includes('state suspended'))
  expect(reader.events.at(-1)?.data).toMatchObject({ previous: 'idle', mode: 'freeze' })
  await broker.ensure('t')
  await reader.until(() => reader.types().at(-1) === 'lease')
  await broker.release(session.session_id)
  expect(await reader.ended).toBe('ended')
  const types = ['state provisioning', 'state active', 'lease', 'state idle', 'state suspended', 'state active', 'lease']
  expect(reader.types()).toEqual([...types, 'state terminated', 'released'])
  expect(reader.events.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
})

test('[2.4] wakes and exits that an agent tells are events of the session; what the product killed is in the audit log too [C-53]', async () => {
  await begin()
  const session = await broker.ensure('t')
  const reader = await follow(session.session_id, 3)
  await tell(
    entry(session, 'wake', { from: 'freeze' }),
    entry(session, 'exec.exit', exit('e1', { exit_code: 137, reason: 'oom_killed', oom_killed: true })),
    entry(session, 'exec.exit', exit('e2', { exit_code: 143, signal: 'SIGTERM', reason: 'killed', kill_cause: 'stopped' })),
    entry(session, 'process.exit', { ...exit(''), kind: undefined, exec_id: undefined, process_id: 'p1' }),
    entry(session, 'from.the.future', { x: 1 }),
    entry(session, 'exec.exit', { nonsense: true }),
  )
  await reader.until(() => reader.events.length === 4)
  expect(reader.types()).toEqual(['wake', 'exec.exit', 'exec.exit', 'process.exit'])
  expect(reader.events.map(({ id }) => id)).toEqual([4, 5, 6, 7])
  expect(reader.events[1]?.data).toMatchObject({ exec_id: 'e1', kind: 'exec', exit_code: 137, oom_killed: true })
  expect(await audited('exec.exit')).toMatchObject([
    {
      session_id: session.session_id,
      sandbox_id: session.sandbox.id,
      thread_id: 't',
      caller: 'system',
      code: 'stopped',
      data: { exec_id: 'e2', reason: 'killed', kill_cause: 'stopped' },
    },
  ])
})

test('[2.4] random drops: who resumes by Last-Event-ID gets every event once', async () => {
  await begin()
  const session = await broker.ensure('t')
  const COUNT = 300
  const telling = (async () => {
    for (let i = 0; i < COUNT; i++) await tell(entry(session, 'exec.exit', exit(`e${i}`)))
  })()
  const seen: { id: number; exec: unknown }[] = []
  let drops = 0
  while (seen.length < COUNT) {
    const reader = await follow(session.session_id, seen.at(-1)?.id ?? 3)
    const enough = 1 + Math.floor(Math.random() * 20)
    await reader.until(() => reader.events.length >= Math.min(enough, COUNT - seen.length))
    await reader.close()
    drops++
    seen.push(...reader.events.map(({ id, data }) => ({ id, exec: data.exec_id })))
  }
  await telling
  expect(seen).toEqual(Array.from({ length: COUNT }, (_, i) => ({ id: i + 4, exec: `e${i}` })))
  expect(drops).toBeGreaterThan(10)
})

test('[C-72] an entry is stored once per instance and number, however often it is told', async () => {
  await begin()
  const session = await broker.ensure('t')
  const entries = [entry(session, 'exec.exit', exit('a')), entry(session, 'exec.exit', exit('b', { kill_cause: 'disconnect' }))]
  const answers = await Promise.all([tell(...entries), tell(...entries), tell(...entries.slice(0, 1))])
  const last = entries[1]?.seq
  expect(answers.map(({ journal_seq }) => journal_seq)).toEqual([last, last, last])
  expect((await tell(...entries, entry(session, 'exec.exit', exit('c')))).journal_seq).toBe(seq)
  const reader = await follow(session.session_id, 3)
  await reader.until(() => reader.events.length === 3)
  expect(reader.events.map(({ id, data }) => [id, data.exec_id])).toEqual([
    [4, 'a'],
    [5, 'b'],
    [6, 'c'],
  ])
  expect(await audited('exec.exit')).toHaveLength(1)
})

test('an agent that comes back tells again what it cannot know to be told; that is stored unless it is there', async () => {
  await begin()
  const session = await broker.ensure('t')
  const killed = exit('b', { kill_cause: 'stopped' })
  await tell(entry(session, 'exec.exit', exit('a')), entry(session, 'exec.exit', killed))
  const kept = new Map<string, Kept>(agent.sandboxes)
  await agent.close()
  agent = await broker.startAgent({ heartbeat: false, installId: agent.installId, sandboxes: kept })
  seq = 0
  const again = { recovered: true, age_ms: 3000 }
  await tell(
    entry(session, 'exec.exit', exit('a'), again),
    entry(session, 'exec.exit', killed, again),
    entry(session, 'exec.exit', exit('not told'), again),
    entry(session, 'exec.exit', exit('a', { duration_ms: 6 }), again), // the id was used again
  )
  const reader = await follow(session.session_id, 3)
  await reader.until(() => reader.events.length === 4)
  expect(reader.events.map(({ data }) => [data.exec_id, data.duration_ms])).toEqual([
    ['a', 5],
    ['b', 5],
    ['not told', 5],
    ['a', 6],
  ])
  expect(await audited('exec.exit')).toHaveLength(1)
})

test('an agent speaks for its own sandboxes only', async () => {
  await begin()
  const session = await broker.ensure('t')
  const own = agent
  agent = await broker.startAgent({ heartbeat: false })
  const { journal_seq } = await tell(
    entry(session, 'exec.exit', exit('forged', { kill_cause: 'stopped' })),
    entry(session, 'dataplane.open', {}),
  )
  expect(journal_seq).toBe(seq)
  agent = own
  await tell(
    entry({ ...session, sandbox: { id: 'sb_other' } }, 'exec.exit', exit('other sandbox')),
    entry(session, 'exec.exit', exit('own')),
  )
  const reader = await follow(session.session_id, 3)
  await reader.until(() => reader.events.length === 1)
  expect(reader.events[0]?.data.exec_id).toBe('own')
  expect(await audited('exec.exit')).toEqual([])
  expect(await audited('dataplane.open')).toEqual([])
})

test('[2.4] a follower at one broker learns what another broker of the database writes', async () => {
  const dataDir = tempDir()
  await begin({ dataDir, sharedDataDir: true, apiKey: 'k'.repeat(40), enrollToken: 'enroll-token-of-two-brokers' })
  const second = await startTestBroker({ dataDir, sharedDataDir: true, apiKey: 'k'.repeat(40), enrollToken: 'enroll-token-of-two-brokers' })
  others.push(second)
  const session = await broker.ensure('t')
  const reader = await follow(session.session_id, 3, second)
  await tell(entry(session, 'exec.exit', exit('a')))
  await reader.until(() => reader.events.length === 1)
  await broker.release(session.session_id)
  expect(await reader.ended).toBe('ended')
  expect(reader.types()).toEqual(['exec.exit', 'state terminated', 'released'])
  await second.stop()
  others.pop()
  await broker.stop()
  removeDir(dataDir)
})

test('[2.4] the last 1,000 are kept; who comes back from before them is told of the gap', { timeout: 180_000 }, async () => {
  await begin()
  const session = await broker.ensure('t')
  for (let i = 0; i < 12; i++) await tell(...Array.from({ length: 100 }, (_, n) => entry(session, 'exec.exit', exit(`e${i * 100 + n}`))))
  const late = await follow(session.session_id, 50)
  await late.until(() => late.events.length === 1001)
  expect(late.events[0]).toEqual({ id: 0, type: 'gap', data: { session_id: session.session_id, from: 51, to: 203 } })
  expect(late.events.slice(1).map(({ id }) => id)).toEqual(Array.from({ length: 1000 }, (_, i) => 204 + i))
  const fresh = await follow(session.session_id)
  await fresh.until(() => fresh.events.length === 1000)
  expect(fresh.events[0]?.id).toBe(204)
  const inTime = await follow(session.session_id, 203)
  await inTime.until(() => inTime.events.length === 1000)
  expect(inTime.types()).not.toContain('gap')
})

test('the events of a session go with its tombstone', async () => {
  await begin()
  const session = await broker.ensure('t')
  const other = await broker.ensure('t2')
  await broker.release(session.session_id)
  await broker.advance(25 * 3600 * 1000)
  await broker.broker.reap()
  const store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
  expect(await store.sessions.byId(session.session_id)).toBeUndefined()
  expect(await store.events.last(session.session_id)).toBe(0)
  expect(await store.events.last(other.session_id)).toBeGreaterThan(0)
  await store[Symbol.asyncDispose]()
})

test('a change that another writer has overtaken writes no event', async () => {
  await begin()
  const session = await broker.ensure('t')
  const store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
  const stale = await store.sessions.byId(session.session_id)
  if (stale === undefined) throw new Error('no session')
  await broker.release(session.session_id)
  const events = [{ ts: 0, type: 'wake', data: { from: 'stop' } }] as const
  expect(await store.sessions.save(stale, { ...stale, busy: !stale.busy }, { events })).toBe(false)
  expect((await store.events.after(session.session_id, 0, 100)).map(({ type }) => type)).not.toContain('wake')
  await store[Symbol.asyncDispose]()
})

test('[2.4] ensure moves the lease without an event each time', async () => {
  await begin()
  const session = await broker.ensure('t')
  for (let i = 0; i < 50; i++) await broker.ensure('t')
  const store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
  // 50 calls may straddle one mark of a tenth of the lease, no more.
  expect(await store.events.last(session.session_id)).toBeLessThanOrEqual(4)
  await store[Symbol.asyncDispose]()
  await broker.advance(91_000)
  await broker.ensure('t')
  const reader = await follow(session.session_id)
  await reader.until(() => reader.types().filter((type) => type === 'lease').length >= 2)
})
