import type { JournalEntry } from '@boxoffice/protocol'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type EventReader, readEvents } from '../support/event-reader.ts'
import type { FakeAgent } from '../support/fake-agent.ts'
import { gate, removeDir, startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

let dataDir: string
let broker: TestBroker
let agent: FakeAgent
let readers: EventReader[]

beforeEach(async () => {
  dataDir = tempDir()
  readers = []
  const profiles = [
    { name: 'patient', end_grace_seconds: 20 },
    { name: 'hour', hard_ttl_seconds: 3600 },
  ]
  broker = await startTestBroker({ dataDir, profiles })
  agent = await broker.startAgent({ heartbeat: false })
})
afterEach(async () => {
  await Promise.all(readers.map((reader) => reader.close()))
  await broker.stop()
  removeDir(dataDir)
})

const follow = async (id: string, last?: number): Promise<EventReader> => {
  const reader = await readEvents(broker.url, broker.key, id, last === undefined ? {} : { 'last-event-id': String(last) })
  readers.push(reader)
  return reader
}
type Ensured = Awaited<ReturnType<TestBroker['ensure']>>
const exit = (seq: number, session: Ensured, execId = `e${seq}`): JournalEntry => ({
  seq,
  age_ms: 0,
  type: 'exec.exit',
  session_id: session.session_id,
  sandbox_id: session.sandbox.id,
  data: {
    kind: 'exec',
    exec_id: execId,
    exit_code: 0,
    signal: null,
    reason: 'exited',
    kill_cause: null,
    oom_killed: false,
    duration_ms: 5,
  },
})
/** The agent does not answer to the end of a sandbox until the returned gate opens. */
const silent = () => {
  const held = gate<undefined>()
  agent.hooks.destroy = () => held.promise
  return held
}
const LAST = ['state terminated', 'released']

test('[2.4] what the agent has still to tell when a session is released comes before the last events', async () => {
  agent.hooks.untold = () => 3
  const session = await broker.ensure('t')
  const reader = await follow(session.session_id, 3)
  expect((await broker.release(session.session_id)).status).toBe(204)
  await broker.broker.settled()
  // It has answered, and what it named is not here yet.
  const late = await follow(session.session_id, 3)
  expect(late.status).toBe(200)
  await agent.heartbeat([], [exit(1, session), exit(2, session)])
  await late.until(() => late.events.length === 2)
  await agent.heartbeat([], [exit(2, session), exit(3, session)])
  for (const one of [reader, late]) {
    expect(await one.ended).toBe('ended')
    expect(one.types()).toEqual(['exec.exit', 'exec.exit', 'exec.exit', ...LAST])
    expect(one.events.map(({ id }) => id)).toEqual([4, 5, 6, 7, 8])
  }
  expect((await follow(session.session_id, 8)).status).toBe(204)
  // What is told of it now comes too late.
  await agent.heartbeat([], [exit(4, session)])
  expect((await follow(session.session_id, 8)).status).toBe(204)
})

test('[2.4] what the agent reports before it answers counts as told', async () => {
  const held = silent()
  agent.hooks.untold = () => 2
  const session = await broker.ensure('t')
  const reader = await follow(session.session_id, 3)
  await broker.release(session.session_id)
  await agent.until(() => agent.calls.some((call) => call.startsWith('DELETE')))
  await agent.heartbeat([], [exit(1, session), exit(2, session)])
  held.open(undefined)
  expect(await reader.ended).toBe('ended')
  expect(reader.types()).toEqual(['exec.exit', 'exec.exit', ...LAST])
})

test('[2.4] an agent that does not answer within 10 s and the grace: a gap of one id stands for what it had to tell', async () => {
  const held = silent()
  const session = await broker.ensure('t', { profile: 'patient' })
  const reader = await follow(session.session_id, 3)
  await broker.release(session.session_id)
  await agent.heartbeat([], [exit(1, session)])
  await reader.until(() => reader.events.length === 1)
  await broker.advance(25_000)
  await broker.broker.reap()
  // It may still answer: nobody has had all.
  expect((await follow(session.session_id, 4)).status).toBe(200)
  await broker.advance(6000)
  await broker.broker.reap()
  expect(await reader.ended).toBe('ended')
  expect(reader.types()).toEqual(['exec.exit', 'gap', ...LAST])
  expect(reader.events.map(({ id }) => id)).toEqual([4, 0, 6, 7])
  expect(reader.events[1]?.data).toEqual({ session_id: session.session_id, from: 5, to: 5 })
  held.open(undefined)
  await broker.broker.settled()
  expect((await follow(session.session_id, 7)).status).toBe(204)
})

test('[2.4] a broker that is restarted before the agent has told all goes on waiting for it', async () => {
  agent.hooks.untold = () => 1
  const session = await broker.ensure('t')
  await broker.release(session.session_id)
  await broker.broker.settled()
  const { installId, instanceId } = agent
  const agentToken = agent.registration.agent_token
  await broker.stop()
  broker = await startTestBroker({ dataDir })
  agent = await broker.startAgent({ heartbeat: false, installId, instanceId, agentToken })
  const reader = await follow(session.session_id, 3)
  await agent.heartbeat([], [exit(1, session)])
  expect(await reader.ended).toBe('ended')
  expect(reader.types()).toEqual(['exec.exit', ...LAST])
})

test('[2.4] a broker that ends before the agent has answered asks it again when it is back, however long it was away', async () => {
  silent()
  const session = await broker.ensure('t')
  await broker.release(session.session_id)
  await agent.until(() => agent.calls.some((call) => call.startsWith('DELETE')))
  const { installId, instanceId, sandboxes } = agent
  await broker.stop()
  const now = () => Date.now() + 600_000
  broker = await startTestBroker({ dataDir }, { now })
  agent = await broker.startAgent({ heartbeat: false, installId, instanceId, sandboxes })
  agent.hooks.untold = () => 1
  const reader = await follow(session.session_id, 3)
  await agent.until(() => agent.calls.includes(`DELETE /control/v1/sandboxes/${session.sandbox.id}?reason=released`))
  await broker.broker.settled()
  await broker.broker.reap()
  await agent.heartbeat([], [exit(1, session)])
  expect(await reader.ended).toBe('ended')
  expect(reader.types()).toEqual(['exec.exit', ...LAST])
})

test('[2.4] an expiry and its release while the agent is silent are told in their order', async () => {
  const held = silent()
  const session = await broker.ensure('t', { profile: 'hour' })
  const reader = await follow(session.session_id, 3)
  await broker.advance(3_601_000)
  await broker.broker.reap()
  expect((await broker.release(session.session_id)).status).toBe(204)
  await agent.heartbeat([], [exit(1, session)])
  held.open(undefined)
  expect(await reader.ended).toBe('ended')
  expect(reader.types()).toEqual(['exec.exit', 'state terminated'])
  expect(reader.events.at(-1)?.data).toMatchObject({ reason: 'hard_ttl' })
  await broker.broker.settled()
  const late = await follow(session.session_id, reader.lastId())
  expect(await late.ended).toBe('ended')
  expect(late.types()).toContain('released')
})
