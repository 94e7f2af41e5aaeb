import { afterEach, beforeEach, expect, test } from 'vitest'
import type { FakeAgent } from '../../support/fake-agent.ts'
import { startTestBroker, type TestBroker } from '../../support/test-broker.ts'

/** The agents of `boxoffice up --provider docker`: one whose engine does not answer, and one for MCP servers alone. */
let broker: TestBroker
let engine: FakeAgent
let reserved: FakeAgent
const start = async (config: Parameters<typeof startTestBroker>[0] = {}): Promise<void> => {
  const images = { allowed: ['node:*'] }
  const profiles = [{ name: 'pooled', pool_size: 2 }]
  broker = await startTestBroker({ agentTimeout: 600, images, profiles, ...config })
  engine = await broker.startAgent({ heartbeat: false, available: false, images: true })
  reserved = await broker.startAgent({ heartbeat: false, reserved: 'mcp', images: false })
}
beforeEach(() => start())
afterEach(() => broker.stop())

type Server = { status: string; error_message: string | null }

/** Adds the server; one that has given up begins anew. */
const add = async (name: string, box: object = {}): Promise<Server> =>
  (await broker.post<Server>('/v1/mcp/servers', { name, command: 'true', pipeline_uuid: name, box }, { prefer: 'wait=0' })).body

/** The fake agents run nothing: a server gets its sandbox there and then fails, again and again. */
const placed = (name: string, at: FakeAgent) =>
  expect
    .poll(async () => {
      await add(name)
      return at.sandboxes.size
    })
    .toBe(1)

const engineAnswers = async (available: boolean): Promise<void> => {
  engine.provider.available = available
  await engine.heartbeat()
}

test('[2-81] while no engine answers, an MCP server has its sandbox at the agent that is reserved for them', async () => {
  await placed('plain', reserved)
  expect(engine.sandboxes.size).toBe(0)
})

test('[2-81] a server that needs an engine waits for it: with an image, with a sandbox there', async () => {
  await engineAnswers(true)
  await placed('there', engine)
  await engineAnswers(false)
  const why = async (name: string, box: object = {}) => {
    const { status, error_message } = await add(name, box)
    return status === 'unavailable' ? error_message : status
  }
  await expect.poll(() => why('imaged', { image: 'node:20' })).toMatch(/^box_unavailable: no agent has an available provider/)
  await expect.poll(() => why('there')).toMatch(/^box_unavailable: the sandbox of thread \S+ is with an engine that does not answer/)
  expect([engine.sandboxes.size, reserved.sandboxes.size]).toEqual([1, 0])
})

test('[2-81] once an engine answers, it has each server from its next start on', async () => {
  await placed('plain', reserved)
  await engineAnswers(true)
  await placed('plain', engine)
  await expect.poll(() => reserved.sandboxes.size).toBe(0)
})

test('[2-81] the reserved agent counts for nothing else: sandboxes, readiness, Box, pools, metrics', async () => {
  expect((await broker.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(503)
  expect((await broker.refused({ thread_id: 't', mode: 'ensure', provider_preference: 'fake' })).status).toBe(503)
  expect((await broker.get('/readyz')).status).toBe(503)
  expect((await broker.get<{ backend: object }>('/compat/box/v1/status')).body.backend).toMatchObject({
    available: false,
    instance_id: engine.instanceId,
  })
  const metrics = await (await fetch(`${broker.url}/metrics`)).text()
  expect(metrics).toMatch(/^boxoffice_agents\{available="true"\} 0$/m)
  expect([engine.registration.pools.length, reserved.registration.pools.length]).toEqual([1, 0])
  // An operator sees it, and what it is for.
  const { body } = await broker.get<{ agents: { id: string; provider: { reserved?: string } }[] }>('/v1/agents')
  expect(Object.fromEntries(body.agents.map(({ id, provider }) => [id, provider.reserved]))).toEqual({
    [engine.id]: undefined,
    [reserved.id]: 'mcp',
  })
})

test('[2-81] mcp.host_fallback off: the reserved agent is not used', async () => {
  await broker.stop()
  await start({ mcp: { hostFallback: false } })
  await expect.poll(async () => (await add('plain')).error_message).toMatch(/^box_unavailable: no agent has an available provider/)
  expect(reserved.sandboxes.size).toBe(0)
})
