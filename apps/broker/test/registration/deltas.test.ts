import { join } from 'node:path'
import type { SandboxReport } from '@boxoffice/protocol'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { FakeAgent } from '../support/fake-agent.ts'
import { gate, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker()
  agent = await broker.startAgent({ heartbeat: false })
})
afterEach(() => broker.stop())

const binding = async (id: string) => (await broker.read(id, '?token=false')).body.binding

const reportOf = (id: string, sessionId: string | null, fields: Partial<SandboxReport> = {}): SandboxReport => ({
  sandbox_id: id,
  session_id: sessionId,
  state: 'running',
  generation: 1,
  profile_hash: 'p',
  activity: { running: 0, attached: 0, idle_ms: 0 },
  reason: null,
  ...fields,
})

test('a broker says that it knows deltas; what a delta does not name stays as it is', async () => {
  const { session_id, sandbox } = await broker.ensure('t')
  await broker.advance(11_000)
  agent.sandboxes.delete(sandbox.id)
  expect(await agent.heartbeat([])).toMatchObject({ deltas: true, decisions: [] })
  expect(agent.registration).toMatchObject({ deltas: true })
  expect((await binding(session_id)).state).toBe('active')
})

test('[4-95] a sandbox that a delta tells as gone by its name fails its session, and no other one', async () => {
  const [gone, there] = [await broker.ensure('gone'), await broker.ensure('there')]
  agent.sandboxes.delete(gone.sandbox.id)
  await agent.heartbeat([reportOf(gone.sandbox.id, gone.session_id, { state: 'lost', reason: 'sandbox_missing' })])
  expect(await binding(gone.session_id)).toMatchObject({ state: 'failed', reason: 'sandbox_missing' })
  expect((await binding(there.session_id)).state).toBe('active')
})

test('what does not agree with its session yet is to be told again: one that is being made, one that is not suspended where its session is', async () => {
  const written = gate()
  agent.hooks.create = async () => {
    await written.promise
    return undefined
  }
  const ensuring = broker.ensure('making')
  await agent.until(() => agent.calls.some((call) => call.startsWith('PUT ')))
  const making = agent.calls.find((call) => call.startsWith('PUT '))?.split('/')[4] ?? ''
  const { decisions } = await agent.heartbeat([reportOf('sb_1', making)])
  expect(decisions).toEqual([{ sandbox_id: 'sb_1', action: 'keep', again: true }])
  written.open()
  const { session_id, sandbox } = await ensuring
  const told = async (state: SandboxReport['state']) => (await agent.heartbeat([reportOf(sandbox.id, session_id, { state })])).decisions
  expect(await told('running')).toEqual([{ sandbox_id: sandbox.id, action: 'keep' }])
  expect(await told('frozen')).toEqual([{ sandbox_id: sandbox.id, action: 'keep', again: true }])
})

test('an agent is asked for a report of all sandboxes until one comes that was made after the wish', async () => {
  await using store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
  await store.agents.wantWhole(null, Date.now())
  expect((await agent.heartbeat([])).whole).toBe(true)
  // One that may have been under way when it was wanted does not count.
  await agent.heartbeat()
  await expect.poll(async () => (await agent.heartbeat([])).whole).toBe(true)
  // This tells of all.
  await broker.advance(10_000)
  expect((await agent.heartbeat([])).whole).toBeUndefined()
})

test('[C-78] a session whose end could not be told has its sandbox removed by the next whole report, which the broker asks for', async () => {
  await broker.advance(10_000)
  const { session_id } = await broker.ensure('t')
  agent.hooks.destroy = async () => ({ status: 400, code: 'INVALID_REQUEST', message: 'not now' })
  await broker.release(session_id)
  await broker.broker.settled()
  expect((await agent.heartbeat([])).whole).toBe(true)
  await agent.heartbeat()
  expect(agent.sandboxes.size).toBe(0)
})
