import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FakeAgent, startFakeAgent } from '../support/fake-agent.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

const LOST_AFTER = 60

let broker: TestBroker
/** Not among those that report whenever the clock moves. */
let silent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker({ agentLostAfter: LOST_AFTER })
  silent = await startFakeAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken, heartbeat: false })
})
afterEach(async () => {
  await silent.close()
  await broker.stop()
})

const binding = async (id: string) => (await broker.read(id, '?token=false')).body.binding

test('[4-93] the sessions of an agent that stays silent fail, and ensure makes new ones where an agent answers', async () => {
  const lost = await broker.ensure('t')
  const other = await broker.startAgent({ heartbeat: false })
  await broker.advance((LOST_AFTER - 1) * 1000)
  await broker.broker.reap()
  expect((await binding(lost.session_id)).state).not.toBe('failed')
  await broker.advance(2000)
  await broker.broker.reap()
  expect(await binding(lost.session_id)).toMatchObject({ state: 'failed', reason: 'agent_lost' })
  const next = await broker.ensure('t')
  expect(next.session_id).not.toBe(lost.session_id)
  expect(other.sandboxes.has(next.sandbox.id)).toBe(true)
})

test('an agent that comes back is told to destroy what it still has of them', async () => {
  const lost = await broker.ensure('t')
  await broker.advance((LOST_AFTER + 1) * 1000)
  await broker.broker.reap()
  await silent.register({
    sandboxes: [
      {
        ...{ sandbox_id: lost.sandbox.id, session_id: lost.session_id, state: 'running', generation: 1, profile_hash: 'x', reason: null },
        activity: { running: 0, attached: 0, idle_ms: 0 },
      },
    ],
  })
  expect(silent.registration.decisions).toEqual([{ sandbox_id: lost.sandbox.id, action: 'destroy' }])
})

test('silence while the broker itself was down does not count', async () => {
  const { session_id } = await broker.ensure('t')
  await broker.advance(LOST_AFTER * 10_000)
  const { dataDir, enrollToken } = broker
  await broker.stop(true)
  broker = await startTestBroker({ agentLostAfter: LOST_AFTER, dataDir, enrollToken })
  await broker.broker.reap()
  expect(await binding(session_id)).toMatchObject({ state: 'active', reason: null })
})

test('[C-77] a jump of the clock makes no agent silent, and a silent one is not heard because of it', async () => {
  const { session_id } = await broker.ensure('t')
  broker.setClock(LOST_AFTER * 2000)
  await broker.broker.reap()
  expect(await binding(session_id)).toMatchObject({ reason: null })
  expect((await broker.negotiate({ thread_id: 'ahead', mode: 'ensure' })).status).toBe(200)
  broker.setClock(-LOST_AFTER * 2000)
  await broker.advance((LOST_AFTER + 1) * 1000)
  await broker.broker.reap()
  expect(await binding(session_id)).toMatchObject({ state: 'failed', reason: 'agent_lost' })
})
