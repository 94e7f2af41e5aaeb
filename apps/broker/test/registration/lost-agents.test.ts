import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLog } from '../../src/host/log.ts'
import { Inventory } from '../../src/registration/inventory.ts'
import { LostAgents } from '../../src/registration/lost-agents.ts'
import type { SessionEffects } from '../../src/sessions/effects.ts'
import { SessionWriter } from '../../src/sessions/session-writer.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { type FakeAgent, startFakeAgent } from '../support/fake-agent.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

const LOST_AFTER = 60

let broker: TestBroker
/** Not among those that report whenever the clock moves. */
let silent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker({ agentTimeout: 6, agentLostAfter: LOST_AFTER })
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
        sandbox_id: lost.sandbox.id,
        session_id: lost.session_id,
        state: 'running',
        generation: 1,
        profile_hash: 'x',
        reason: null,
        activity: { running: 0, attached: 0, idle_ms: 0 },
      },
    ],
  })
  expect(silent.registration.decisions).toEqual([{ sandbox_id: lost.sandbox.id, action: 'destroy' }])
})

test('[4-93] an agent that comes back while its sessions are being ended keeps those that are left', async () => {
  const sessions = [await broker.ensure('a'), await broker.ensure('b'), await broker.ensure('c')]
  await using store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
  const effects = { perform: () => {} } as unknown as SessionEffects
  const writer = new SessionWriter(store, effects, Date.now)
  const inventory = new Inventory({ store, effects, writer, log: createLog('silent'), now: Date.now })
  // The agent is heard by its record in the store, as with a report to another broker.
  const now = () => Date.now() + 3600_000
  const silence = { whileReachable: ({ lastSeenAt }: { lastSeenAt: number }) => now() - lastSeenAt, silentFor: () => [] }
  const ended: string[] = []
  const reporting = Object.assign(Object.create(inventory) as Inventory, {
    async lost(...args: Parameters<Inventory['lost']>) {
      await inventory.lost(...args)
      ended.push(args[0].id)
      const agent = await store.agents.byId(args[0].agentId)
      if (ended.length === 1 && agent !== undefined)
        await store.agents.seen({ ...agent, now: now(), since: 0, isWhole: false, wantedBefore: 0 })
    },
  })
  await new LostAgents({ store, inventory: reporting, lostAfterMs: 60_000, silence, now }).run()
  const states = await Promise.all(sessions.map(async ({ session_id }) => (await binding(session_id)).state))
  expect(states.sort()).toEqual(['active', 'active', 'failed'])
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
