import { afterEach, beforeEach, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker({ profiles: [{ name: 'strict', lease_seconds: 10, on_lease_expiry: 'terminate' }] })
  agent = await broker.startAgent({ heartbeat: false })
})
afterEach(() => broker.stop())

const stateOf = async (id: string): Promise<string | number> => {
  const { status, body } = await broker.read(id, '?token=false')
  return status === 200 ? body.binding.state : status
}
/** The clock passes the lease and the reaper looks; what began since then is in no report yet. */
const passLease = async (begun: () => void): Promise<void> => {
  await broker.advance(11_000)
  begun()
  await broker.broker.reap()
}

test('[C-51] a job that began after the last report keeps its session', async () => {
  const { session_id, sandbox } = await broker.ensure('t', { profile: 'strict' })
  const kept = agent.sandboxes.get(sandbox.id)
  await passLease(() => {
    if (kept !== undefined) kept.activity = { running: 1, attached: 0, idle_ms: 0 }
  })
  expect(await stateOf(session_id)).toBe('active')
})

test('[C-51] an unused one ends', async () => {
  const { session_id, sandbox } = await broker.ensure('t', { profile: 'strict' })
  const kept = agent.sandboxes.get(sandbox.id)
  if (kept !== undefined) kept.activity = { running: 0, attached: 0, idle_ms: 3_600_000 }
  await passLease(() => {})
  expect(await stateOf(session_id)).toBe(410)
})

test('[C-51] while its agent cannot be asked it stays, until the hard TTL', async () => {
  const { session_id } = await broker.ensure('t', { profile: 'strict' })
  await passLease(() => {})
  const before = await stateOf(session_id)
  await agent.close()
  await passLease(() => {})
  expect(await stateOf(session_id)).toBe(before)
  await broker.advance(9 * 3600 * 1000)
  await broker.broker.reap()
  expect(await stateOf(session_id)).toBe(410)
})
