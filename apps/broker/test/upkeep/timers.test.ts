import { afterEach, beforeEach, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

const MINUTE = 60_000
const profiles = [
  { name: 'leased', lease_seconds: 2, on_lease_expiry: 'terminate' as const },
  { name: 'yields', lease_seconds: 2, on_lease_expiry: 'suspend' as const },
]

let broker: TestBroker
let agent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker({ profiles, reaperIntervalMs: 3_600_000 })
  agent = await broker.startAgent({ heartbeat: false })
})
afterEach(() => broker.stop())

const state = async (id: string) => {
  const { status, body } = await broker.read(id, '?token=false')
  return status === 200 ? body.binding.state : status
}
const pass = async (ms: number) => {
  for (const sandbox of agent.sandboxes.values()) sandbox.activity.idle_ms += ms
  await broker.advance(ms)
  await broker.broker.reap()
  await broker.broker.settled()
}
const sandboxOf = (id: string) => {
  const found = [...agent.sandboxes.values()].find(({ session_id }) => session_id === id)
  if (found === undefined) throw new Error('no sandbox')
  return found
}

test('[4-92, C-53] without activity: idle, then frozen, then stopped; ensure wakes it', async () => {
  const { session_id } = await broker.ensure('t')
  await pass(MINUTE)
  expect(await state(session_id)).toBe('idle')
  await pass(14 * MINUTE)
  expect([await state(session_id), sandboxOf(session_id).suspended]).toEqual(['suspended', 'freeze'])
  await pass(60 * MINUTE)
  expect([await state(session_id), sandboxOf(session_id).suspended]).toEqual(['suspended', 'stop'])
  const { entries } = (await broker.get<{ entries: unknown[] }>('/v1/audit?event=sandbox.session.suspend')).body
  expect(entries).toHaveLength(2)
  expect((await broker.ensure('t')).session_id).toBe(session_id)
  await broker.broker.settled()
  expect([await state(session_id), sandboxOf(session_id).suspended]).toEqual(['active', null])
})

test('[C-53] a dataplane request that wakes the sandbox at the agent wakes the session with the next report', async () => {
  const { session_id } = await broker.ensure('t')
  await pass(15 * MINUTE)
  const sandbox = sandboxOf(session_id)
  sandbox.suspended = null
  sandbox.activity.idle_ms = 0
  await broker.advance(5000)
  expect(await state(session_id)).toBe('active')
})

test('[C-51] work holds off the idle timeout, never the hard TTL', async () => {
  const { session_id } = await broker.ensure('t')
  sandboxOf(session_id).activity.running = 1
  await pass(2 * 60 * MINUTE)
  expect(await state(session_id)).toBe('active')
  await pass(6 * 60 * MINUTE)
  expect(await state(session_id)).toBe(410)
  expect(agent.sandboxes.size).toBe(0)
  expect(agent.revoked.get(session_id)).toBe('hard_ttl')
})

test('[C-51] when the work ends, the idle timeout begins', async () => {
  const { session_id } = await broker.ensure('t')
  sandboxOf(session_id).activity.attached = 1
  await pass(60 * MINUTE)
  sandboxOf(session_id).activity.attached = 0
  await pass(5 * MINUTE)
  expect(await state(session_id)).not.toBe('suspended')
  await pass(15 * MINUTE)
  expect(await state(session_id)).toBe('suspended')
})

test('[4-91, C-51] a lease of 2 s: terminated or suspended by policy; kept while work runs', async () => {
  const [ends, waits, works] = await Promise.all([
    broker.ensure('ends', { profile: 'leased' }),
    broker.ensure('waits', { profile: 'yields' }),
    broker.ensure('works', { profile: 'leased' }),
  ])
  sandboxOf(works.session_id).activity.running = 1
  await pass(2500)
  expect([await state(ends.session_id), await state(waits.session_id), await state(works.session_id)]).toEqual([410, 'suspended', 'active'])
  expect((await broker.refused({ thread_id: 'ends', mode: 'get' })).status).toBe(404)
})

test('[2.10] a provider that cannot suspend: the idle session is terminated', async () => {
  const other = await startTestBroker({ reaperIntervalMs: 3_600_000 })
  const plain = await other.startAgent({ suspend: [], heartbeat: false })
  const { session_id } = await other.ensure('t')
  for (const sandbox of plain.sandboxes.values()) sandbox.activity.idle_ms = 15 * MINUTE
  await other.advance(15 * MINUTE)
  await other.broker.reap()
  await other.broker.settled()
  expect((await other.read(session_id)).status).toBe(410)
  expect(plain.sandboxes.size).toBe(0)
  await other.stop()
})

test('[2.10] a provider that refuses to suspend although it said it can: terminated', async () => {
  agent.hooks.suspend = () => ({ status: 501, code: 'UNSUPPORTED', message: 'no freezer' })
  const { session_id } = await broker.ensure('t')
  await pass(15 * MINUTE)
  expect(await state(session_id)).toBe(410)
})

test('[4-92] the hard TTL holds to the second, whatever the reaper does', async () => {
  const { session_id } = await broker.ensure('t')
  await broker.advance(8 * 60 * MINUTE)
  expect((await broker.refresh(session_id)).status).toBe(410)
  const next = await broker.ensure('t')
  expect(next.session_id).not.toBe(session_id)
})

test('[4-172] state and times survive a restart of the broker', async () => {
  const { session_id, sandbox } = await broker.ensure('t')
  await broker.stop(true)
  const again = await startTestBroker({ dataDir: broker.dataDir })
  try {
    expect(again.key).toBe(broker.key)
    const got = await again.negotiate({ thread_id: 't', mode: 'get' }) // [4-19]
    expect([got.status, got.body.session_id, got.body.sandbox.id]).toEqual([200, session_id, sandbox.id])
  } finally {
    await again.stop()
  }
})
