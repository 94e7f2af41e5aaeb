import { join } from 'node:path'
import { CreateSandboxRequest } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { isPlaced } from '../../src/domain/session.ts'
import { createLog } from '../../src/host/log.ts'
import { Inventory } from '../../src/registration/inventory.ts'
import type { SessionEffects } from '../../src/sessions/effects.ts'
import { SessionWriter } from '../../src/sessions/session-writer.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { type FakeAgent, type Kept, startFakeAgent } from '../support/fake-agent.ts'
import { gate, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker({ profiles: [{ name: 'warm', pool_size: 3 }] })
  agent = await broker.startAgent({ heartbeat: false })
})
afterEach(() => broker.stop())

const binding = async (id: string) => (await broker.read(id, '?token=false')).body.binding

describe('[C-50] registration', () => {
  test('tells the agent its id and token, the issuer, the keys, and which profiles want a pool', async () => {
    expect(agent.registration).toMatchObject({ agent_id: expect.stringMatching(/^agt_/), issuer: broker.url, decisions: [] })
    expect(agent.registration.jwks.keys).toHaveLength(1)
    expect(agent.registration.pools.map(({ name, pool_size }) => [name, pool_size])).toEqual([['warm', 3]])
    expect(Math.abs(agent.registration.clock_drift_ms)).toBeLessThan(30_000)
  })

  test('[C-48] the drift of the agent clock is reported', async () => {
    await agent.register({ clock: new Date(Date.now() + 3600_000).toISOString() })
    expect(agent.registration.clock_drift_ms).toBeGreaterThan(3_590_000)
    const { agents } = (await broker.get<{ agents: { clock_drift_ms: number; connected: boolean }[] }>('/v1/agents')).body
    expect(agents).toEqual([expect.objectContaining({ clock_drift_ms: expect.any(Number), connected: true })])
  })

  test('[C-50] forged: a wrong enroll token, an API key, a session token, none → 401', async () => {
    const { token } = await broker.ensure('t')
    for (const forged of ['wrong', broker.key, token, agent.registration.agent_token, '']) {
      const response = await agent.register({}, forged)
      expect([response.status, ((await response.json()) as Refusal).error.code]).toEqual([401, 'UNAUTHENTICATED'])
    }
    expect((await agent.register({ instance_id: 'nothex' })).status).toBe(400)
  })

  test('names that a database may not hold → 400, at registration and in reports', async () => {
    const { instanceId, id, registration } = agent
    expect((await agent.register({ install_id: 'inst\0all-1234' })).status).toBe(400)
    expect((await agent.register({ version: '1\0' })).status).toBe(400)
    const body = { instance_id: instanceId, provider: { ...agent.provider, suspend: [] }, sandboxes: [], partial: false }
    const activity = { running: 0, attached: 0, idle_ms: 0 }
    const sandbox = { sandbox_id: 'sb_1', session_id: 'ssn_1', state: 'lost', generation: 1, profile_hash: '', activity, reason: null }
    for (const fields of [
      { instance_id: `${instanceId.slice(1)}\0` },
      { sandboxes: [{ ...sandbox, session_id: 'ssn_\0' }] },
      { sandboxes: [{ ...sandbox, sandbox_id: 'sb_\ud800' }] },
    ])
      expect((await agent.post(`/v1/agents/${id}/heartbeat`, registration.agent_token, { ...body, ...fields })).status).toBe(400)
  })

  test('[C-50] forged heartbeats: another token, the enroll token, an unknown agent, another instance → 401', async () => {
    const path = (id: string) => `/v1/agents/${id}/heartbeat`
    const body = { instance_id: agent.instanceId, provider: { ...agent.provider, suspend: [] }, sandboxes: [], partial: false }
    const { agent_token } = agent.registration
    expect((await agent.post(path(agent.id), agent_token, body)).status).toBe(200)
    for (const [id, token, fields] of [
      [agent.id, 'wrong', {}],
      [agent.id, broker.enrollToken, {}],
      ['agt_unknown', agent_token, {}],
      [agent.id, agent_token, { instance_id: '000000000000' }],
    ] as const)
      expect((await agent.post(path(id), token, { ...body, ...fields })).status).toBe(401)
  })

  test('the same install keeps its id over restarts; its earlier token is void', async () => {
    const { agent_id, agent_token } = agent.registration
    await agent.register({ instance_id: 'abcdefabcdef' })
    expect(agent.id).toBe(agent_id)
    const body = { instance_id: agent.instanceId, provider: { ...agent.provider, suspend: [] }, sandboxes: [], partial: false }
    expect((await agent.post(`/v1/agents/${agent_id}/heartbeat`, agent_token, body)).status).toBe(401)
  })
})

test('[4-95] what an agent leaves out of a partial registration is not missing; what it leaves out of a complete one is', async () => {
  const [gone, there] = [await broker.ensure('gone'), await broker.ensure('there')]
  await broker.advance(11_000)
  await agent.register({ sandboxes: [], partial: true })
  expect((await binding(gone.session_id)).state).toBe('active')
  agent.sandboxes.delete(gone.sandbox.id)
  await agent.register()
  expect(await binding(gone.session_id)).toMatchObject({ state: 'failed', reason: 'sandbox_missing' })
  expect((await binding(there.session_id)).state).toBe('active')
})

test('[C-50] a new instance that knows no earlier session fails none by its first reports; a later one decides', async () => {
  const sessions = [await broker.ensure('a'), await broker.ensure('b')]
  const states = async () => (await Promise.all(sessions.map(({ session_id }) => binding(session_id)))).map(({ state }) => state)
  await broker.advance(11_000)
  await agent.register({ instance_id: 'abcdefabcdef', sandboxes: [] })
  expect(await states()).toEqual(['active', 'active'])
  // Its true inventory comes: nothing was lost.
  await agent.register()
  await broker.advance(11_000)
  expect(await states()).toEqual(['active', 'active'])

  await agent.register({ sandboxes: [] })
  agent.sandboxes.clear()
  const made = await broker.ensure('made since')
  await agent.heartbeat()
  expect(await states()).toEqual(['active', 'active'])
  await broker.advance(11_000)
  expect(await states()).toEqual(['failed', 'failed'])
  expect(await binding(sessions[0]?.session_id ?? '')).toMatchObject({ reason: 'sandbox_missing' })
  expect((await binding(made.session_id)).state).toBe('active')
})

describe('[2-28..2-31, C-78] keep or destroy', () => {
  const stray = (session_id: string | null): Kept => ({
    sandbox_id: `sb_${crypto.randomUUID()}`,
    session_id: session_id ?? '',
    provider: 'fake',
    isolation: 'none',
    generation: 1,
    profile_hash: '0'.repeat(16),
    from_pool: false,
    suspended: null,
    egress: { policy: null, revision: 0 },
    activity: { running: 0, attached: 0, idle_ms: 0 },
    state: 'running',
    request: CreateSandboxRequest.parse({ tenant_id: 'default', profile: { name: 'default' } }),
  })

  test('kept: live sessions and the pool; destroyed: unknown, released and superseded ones', async () => {
    const [live, released] = await Promise.all([broker.ensure('live'), broker.ensure('released')])
    await broker.release(released.session_id)
    await broker.broker.settled()
    const strays = [stray(null), stray('ssn_unknown'), stray(released.session_id), stray(live.session_id)]
    for (const sandbox of strays) agent.sandboxes.set(sandbox.sandbox_id, sandbox)
    const { decisions } = await agent.heartbeat()
    const action = (id: string | undefined) => decisions.find(({ sandbox_id }) => sandbox_id === id)?.action
    expect(action(live.sandbox.id)).toBe('keep')
    expect(strays.map(({ sandbox_id }) => action(sandbox_id))).toEqual(['keep', 'destroy', 'destroy', 'destroy'])
    expect((await binding(live.session_id)).state).toBe('active')
  })

  test('the sandbox of a session that is being made is kept, by session id', async () => {
    const ready = gate<undefined>()
    agent.hooks.create = () => ready.promise
    const { body } = await broker.negotiate<Refusal>({ thread_id: 't', mode: 'ensure' }, { prefer: 'wait=0' })
    const early = stray(String(body.error.details?.session_id))
    agent.sandboxes.set(early.sandbox_id, early)
    const { decisions } = await agent.heartbeat()
    expect(decisions).toEqual([{ sandbox_id: early.sandbox_id, action: 'keep', again: true }])
    ready.open(undefined)
  })
})

describe('[4-95] a sandbox that dies outside', () => {
  test('[C-72] found out by two brokers, or after its release: the audit log says what happened, once', async () => {
    await using store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
    const effects = { perform: () => {} } as unknown as SessionEffects
    const inventory = new Inventory({
      store,
      effects,
      writer: new SessionWriter(store, effects, Date.now),
      log: createLog('silent'),
      now: Date.now,
    })
    const placed = async () => {
      const session = await store.sessions.byId((await broker.ensure('t')).session_id)
      if (session === undefined || !isPlaced(session)) return expect.fail('has no sandbox')
      return session
    }
    const lost = await placed()
    await inventory.lost(lost, 'container died')
    await inventory.lost(lost, 'container died')
    const released = await placed()
    expect((await broker.release(released.id)).status).toBe(204)
    await inventory.lost(released, 'container died')
    const { entries } = (await broker.get<{ entries: { session_id: string }[] }>('/v1/audit?event=sandbox.session.fail')).body
    expect(entries.map(({ session_id }) => session_id)).toEqual([lost.id])
  })

  test('reported as lost: failed with the reason; get does not make a new one, ensure does', async () => {
    const { session_id, sandbox } = await broker.ensure('t')
    const lost = agent.sandboxes.get(sandbox.id)
    if (lost !== undefined) lost.state = 'lost'
    await agent.heartbeat()
    expect(await binding(session_id)).toMatchObject({ state: 'failed', reason: 'container died' })
    expect((await broker.refused({ thread_id: 't', mode: 'get' })).status).toBe(404)
    expect((await broker.ensure('t')).session_id).not.toBe(session_id)
    await broker.broker.settled()
    expect(agent.revoked.get(session_id)).toBe('failed')
  })

  test('[2-27] ended with its agent: failed at once, and nobody is asked to end it again', async () => {
    const { session_id, sandbox } = await broker.ensure('t')
    const activity = { running: 0, attached: 0, idle_ms: 0 }
    const report = { sandbox_id: sandbox.id, session_id, generation: 1, profile_hash: '0'.repeat(16), activity }
    await agent.heartbeat([{ ...report, state: 'lost', reason: 'agent_stopped', gone: true }])
    expect(await binding(session_id)).toMatchObject({ state: 'failed', reason: 'agent_stopped' })
    await broker.broker.settled()
    expect(agent.calls.filter((call) => /revocations|DELETE/.test(call))).toEqual([])
  })

  test('missing from a full report: failed, unless it is so new that the report may be older', async () => {
    const { session_id, sandbox } = await broker.ensure('t')
    agent.sandboxes.delete(sandbox.id)
    await agent.heartbeat()
    expect((await binding(session_id)).state).toBe('active')
    await agent.heartbeat([]) // partial: says nothing about the others
    await broker.advance(11_000)
    expect(await binding(session_id)).toMatchObject({ state: 'failed', reason: 'sandbox_missing' })
  })

  test('what a report leaves out is judged by when the report came, not by when all of it was written', async () => {
    const [told, missing] = [await broker.ensure('told'), await broker.ensure('missing')]
    await using store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
    const session = await store.sessions.byId(missing.session_id)
    if (session === undefined || !isPlaced(session)) return expect.fail('has no sandbox')
    const effects = { perform: () => {}, removeWorkspaces: () => {} } as unknown as SessionEffects
    // Each look at the clock takes 8 s: the session is 5 s old when the report comes.
    let at = session.activatedAt - 3000
    const now = () => {
      at += 8000
      return at
    }
    const inventory = new Inventory({ store, effects, writer: new SessionWriter(store, effects, now), log: createLog('silent'), now })
    const agentRecord = await store.agents.byId(agent.id)
    if (agentRecord === undefined) return expect.fail('has no agent')
    const report = { session_id: told.session_id, sandbox_id: told.sandbox.id, generation: 1, profile_hash: '0'.repeat(16), reason: null }
    const activity = { running: 1, attached: 0, idle_ms: 0 }
    await inventory.reconcile(agentRecord, [{ ...report, state: 'running', activity }], true)
    expect((await binding(missing.session_id)).state).toBe('active')
  })

  test('sessions of a silent agent stay; when it comes back with them, they go on', async () => {
    const { session_id } = await broker.ensure('t')
    await agent.close()
    const kept = new Map(agent.sandboxes)
    expect((await binding(session_id)).state).toBe('active')
    const back = await broker.startAgent({ installId: agent.installId, sandboxes: kept, heartbeat: false })
    expect(back.registration.decisions).toEqual([{ sandbox_id: expect.any(String), action: 'keep' }])
    const again = await broker.ensure('t')
    expect(again.session_id).toBe(session_id)
    expect(again.sandbox.http_base_url.startsWith(back.url)).toBe(true)
  })
})

describe('placement', () => {
  test('over several agents: the one with the fewest live sessions', async () => {
    const second = await broker.startAgent({ heartbeat: false })
    for (let i = 0; i < 6; i++) await broker.ensure(`t${i}`)
    expect([agent.sandboxes.size, second.sandboxes.size]).toEqual([3, 3])
  })

  test('an agent that has just died is left out: the sandbox is made by the next one', async () => {
    const second = await broker.startAgent({ heartbeat: false })
    await agent.close() // heard a moment ago, so it is still chosen
    const { sandbox } = await broker.ensure('t')
    expect([...second.sandboxes.keys()]).toEqual([sandbox.id])
    expect(sandbox.http_base_url.startsWith(second.url)).toBe(true)
  })

  test('a silent agent gets nothing; alone, it means 503', async () => {
    const later = await startTestBroker({ agentTimeout: 60 })
    // Not among those that report whenever the clock moves.
    const quiet = await startFakeAgent({ brokerUrl: later.url, enrollToken: later.enrollToken, heartbeat: false })
    await later.advance(61_000)
    await expect.poll(async () => (await later.get('/readyz')).status, { timeout: 60_000 }).toBe(503)
    expect((await later.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(503)
    await quiet.heartbeat()
    expect((await later.negotiate({ thread_id: 't', mode: 'ensure' })).status).toBe(200)
    await quiet.close()
    await later.stop()
  })
})

test('[C-79] the control API is called with a token for this agent, good for at most 60 s', async () => {
  await broker.ensure('t') // the fake agent checks it and would answer 401
  expect(agent.created).toBe(1)
})
