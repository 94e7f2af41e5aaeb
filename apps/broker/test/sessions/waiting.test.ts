import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { gate, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker()
  agent = await broker.startAgent()
})
afterEach(() => broker.stop())

const noWait = { prefer: 'wait=0' }
const ensure = (thread_id: string) => ({ thread_id, mode: 'ensure' })

test('[4-13, C-17, C-59] a slow sandbox: 423 with what to ask again for, then 200 with the same id', async () => {
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const first = await broker.negotiate<Refusal>(ensure('slow'), noWait)
  expect([first.status, first.body.error.code, first.body.error.retryable]).toEqual([423, 'SANDBOX_STARTING', true])
  expect(first.headers.get('retry-after')).toBe('2')
  expect(first.body.error.details).toEqual({ session_id: expect.stringMatching(/^ssn_/), state: 'provisioning' })
  const id = String(first.body.error.details?.session_id)

  const get = await broker.refused({ thread_id: 'slow', mode: 'get' }) // [C-18]
  expect(get.status).toBe(423)
  expect(await broker.read(id)).toMatchObject({
    status: 200,
    body: { binding: { state: 'provisioning', sandbox_id: null }, sandbox: null },
  })
  expect((await broker.read(id)).body).not.toHaveProperty('token')
  expect((await broker.refresh(id)).status).toBe(423)

  const waiting = broker.ensure('slow')
  ready.open(undefined)
  expect((await waiting).session_id).toBe(id)
  expect(agent.created).toBe(1)
})

test('[C-17] the wait is as long as the caller says', async () => {
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const started = performance.now()
  expect((await broker.negotiate(ensure('slow'), { prefer: 'respond-async, wait=1' })).status).toBe(423)
  expect(performance.now() - started).toBeGreaterThan(950)
  ready.open(undefined)
})

test('[4-13] provisioning goes on when the client goes away', async () => {
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const leave = new AbortController()
  const request = fetch(`${broker.url}/v1/sandbox/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${broker.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(ensure('left')),
    signal: leave.signal,
  })
  await agent.until(() => agent.calls.some((call) => call.startsWith('PUT')))
  leave.abort()
  await expect(request).rejects.toThrow()
  ready.open(undefined)
  expect((await broker.ensure('left')).session_id).toMatch(/^ssn_/)
  expect(agent.created).toBe(1)
})

test('[4-14, 4-93, C-59] a sandbox that cannot be made: 503, the row fails, nothing is left, the next ensure works', async () => {
  agent.hooks.create = async () => ({ status: 503, code: 'BACKEND_UNAVAILABLE', message: 'the image is missing; pull it' })
  const { status, body, headers } = await broker.refused(ensure('broken'))
  expect([status, body.error.code, body.error.retryable]).toEqual([503, 'PROVIDER_UNAVAILABLE', true])
  expect(body.error.message).toContain('the image is missing')
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  await broker.broker.settled()
  expect(agent.sandboxes.size).toBe(0)
  expect((await broker.refused({ thread_id: 'broken', mode: 'get' })).status).toBe(404)
  const failed = await broker.get<{ sessions: { id: string; reason: string }[] }>('/v1/sandbox/sessions?state=failed')
  expect(failed.body.sessions).toEqual([
    expect.objectContaining({ state: 'failed', reason: expect.stringContaining('the image is missing') }),
  ])

  agent.hooks.create = async () => undefined
  expect((await broker.ensure('broken')).session_id).not.toBe(failed.body.sessions[0]?.id)
})

test('[4-14] everybody who waits for a sandbox that fails is told why', async () => {
  agent.hooks.create = async () => ({ status: 501, code: 'UNSUPPORTED', message: 'this provider has no network' })
  const all = await Promise.all(Array.from({ length: 10 }, () => broker.refused(ensure('broken'))))
  expect(new Set(all.map(({ status, body }) => `${status} ${body.error.code}`))).toEqual(new Set(['501 UNSUPPORTED']))
  expect(agent.sandboxes.size).toBe(0)
})

test('[4-14] no agent, or none with a provider: 503 that says so, and no row', async () => {
  const empty = await startTestBroker()
  try {
    const none = await empty.refused(ensure('t'))
    expect([none.status, none.body.error.code]).toEqual([503, 'PROVIDER_UNAVAILABLE'])
    expect(none.body.error.message).toContain('no agent is connected')
    const engineless = await empty.startAgent({ available: false })
    engineless.provider.reason = 'the docker engine does not answer'
    await engineless.heartbeat()
    expect((await empty.refused(ensure('t'))).body.error.message).toContain('the docker engine does not answer')
    expect((await empty.get<{ sessions: unknown[] }>('/v1/sandbox/sessions')).body.sessions).toEqual([])
    engineless.provider.available = true
    await engineless.heartbeat()
    expect((await empty.negotiate(ensure('t'))).status).toBe(200)
  } finally {
    await empty.stop()
  }
})

describe('[C-01, C-57] access that is lost while its caller waits for a sandbox', () => {
  /** The sandbox of `t` is being made until the gate opens. */
  const held = () => {
    const ready = gate<undefined>()
    agent.hooks.create = () => ready.promise
    return { open: () => ready.open(undefined), begun: agent.until(() => agent.calls.some((call) => call.startsWith('PUT'))) }
  }

  test.each(['makes it', 'finds it being made'])('a key that is revoked, of who %s: 401 and no token', async (how) => {
    const user = await broker.principal('user')
    const spare = await broker.principal('user')
    const { open, begun } = held()
    const first = how === 'makes it' ? undefined : spare.ensure('t')
    if (first !== undefined) await begun
    const waiting = user.refused(ensure('t'))
    await begun
    expect((await broker.delete(`/v1/keys/${user.keyId}`)).status).toBe(204)
    open()
    expect(await waiting).toMatchObject({ status: 401, body: { error: { code: 'UNAUTHENTICATED' } } })
    await first
    // The session is its principal's, who has another key.
    expect((await spare.negotiate(ensure('t'))).status).toBe(200)
    expect(agent.created).toBe(1)
  })

  test('a member that is left out: 403 and no token', async () => {
    const [owner, member] = [await broker.principal('owner'), await broker.principal('member')]
    const { open, begun } = held()
    const made = owner.ensure('t')
    await begun
    const { body } = await owner.refused(ensure('t'), noWait)
    const members = (principals: string[]) =>
      owner.send('PUT', `/v1/sandbox/sessions/${String(body.error.details?.session_id)}/members`, { principals })
    expect((await members(['member'])).status).toBe(200)
    const asked = agent.calls.length
    const waiting = member.refused(ensure('t'))
    // A second one of the member is answered after the first has begun to wait.
    expect((await member.refused(ensure('t'), noWait)).status).toBe(423)
    expect((await members([])).status).toBe(200)
    open()
    expect(await waiting).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN' } } })
    expect((await made).session_id).toBe(body.error.details?.session_id)
    expect(agent.calls.slice(asked).filter((call) => call.startsWith('PUT'))).toEqual([])
  })
})

test('[2.5] releasing a session that starts cancels it; what the agent made nevertheless is destroyed', async () => {
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const first = await broker.negotiate<Refusal>(ensure('cancelled'), noWait)
  const id = String(first.body.error.details?.session_id)
  const waiting = broker.refused(ensure('cancelled'))
  expect((await broker.release(id)).status).toBe(204)
  expect((await waiting).status).toBe(404)
  ready.open(undefined)
  await broker.broker.settled()
  await agent.heartbeat()
  await agent.until(() => agent.sandboxes.size === 0)
  agent.hooks.create = async () => undefined
  expect((await broker.ensure('cancelled')).session_id).not.toBe(id)
})

test('[2.10] a sandbox that is not ready in provision_timeout_seconds fails', async () => {
  const slow = await startTestBroker({ profiles: [{ name: 'hasty', provision_timeout_seconds: 0.2 }] })
  const stuck = await slow.startAgent()
  const never = gate<undefined>()
  stuck.hooks.create = () => never.promise
  const { status, body } = await slow.refused({ ...ensure('t'), profile: 'hasty' })
  expect([status, body.error.code]).toEqual([503, 'PROVIDER_UNAVAILABLE'])
  // Not "the agent cannot be reached", which is there and at work.
  expect(body.error.message).toContain('provision_timeout_seconds')
  const { body: failed } = await slow.get<{ sessions: { reason: string }[] }>('/v1/sandbox/sessions?state=failed')
  expect(failed.sessions).toMatchObject([{ reason: 'provision_timeout' }])
  never.open(undefined)
  await slow.stop()
})
