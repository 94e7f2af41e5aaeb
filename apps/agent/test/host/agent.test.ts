import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { keyThumbprint } from '@boxoffice/node-http'
import { describe, expect, test } from 'vitest'
import { openIdentity } from '../../src/broker-link/identity.ts'
import { profile, TestAgents } from './support/agents.ts'
import { ENROLL_TOKEN } from './support/broker.ts'

const agents = TestAgents.forEachTest()

describe('registration', () => {
  test('says what the agent is and has', async () => {
    const ready = await agents.begin()
    expect(ready).toMatchObject({ agentId: agents.broker.agentId, provider: 'local', isolation: 'bubblewrap' })
    expect(agents.broker.registrations[0]).toMatchObject({
      instance_id: expect.stringMatching(/^[0-9a-f]{12}$/),
      public_url: ready.url,
      control_url: ready.controlUrl,
      provider: { name: 'local', isolation: 'bubblewrap', available: true, reason: null, suspend: ['freeze', 'stop'] },
      sandboxes: [],
    })
  })

  test('goes on until the broker is there, and again when it has forgotten the agent', async () => {
    agents.broker.refuses = { status: 503 }
    const ready = await agents.begin()
    expect(ready.agentId).toBeUndefined()
    expect((await fetch(`${ready.url}/readyz`)).status).toBe(503)
    agents.broker.refuses = undefined
    await agents.broker.heartbeat(() => true)
    expect((await fetch(`${ready.url}/readyz`)).status).toBe(200)
    agents.broker.agentToken = randomUUID()
    await agents.broker.registered(2)
    expect(agents.broker.registrations[1]?.instance_id).toBe(agents.broker.registrations[0]?.instance_id)
  })

  test('[C-50] comes again, once, with its token when the broker says that it has pinned no key', async () => {
    agents.broker.bound = false
    await agents.begin()
    const again = await agents.broker.registered(2)
    expect(again).toMatchObject({ agent_token: agents.broker.agentToken, instance_id: agents.broker.registrations[0]?.instance_id })
    agents.broker.heartbeats.length = 0
    await agents.broker.heartbeat(() => agents.broker.heartbeats.length >= 3)
    expect(agents.broker.registrations).toHaveLength(2)
  })

  test('ends at the start when the broker refuses the enroll token', async () => {
    agents.broker.refuses = { status: 401 }
    await expect(agents.begin()).rejects.toThrow(/refused the enroll token; .*--enroll-token/)
  })

  test('ends later when the broker was away at the start and then refuses the enroll token', async () => {
    agents.broker.refuses = { status: 503 }
    const refused = Promise.withResolvers<Error>()
    await agents.begin({}, { onRefused: refused.resolve })
    agents.broker.refuses = { status: 401 }
    expect((await refused.promise).message).toMatch(/refused the enroll token/)
  })

  test('[C-50] with the token of a service account is as that of its node, and reads the token again each time', async () => {
    const enrollTokenFile = join(agents.dataDir, 'token')
    await writeFile(enrollTokenFile, `${ENROLL_TOKEN}\n`)
    const { agent } = await agents.begin({ enrollToken: undefined, kubernetes: { enrollTokenFile, nodeName: 'node1' } })
    expect(agents.broker.registrations[0]?.install_id).toBe('k8s-node.node1')
    await writeFile(enrollTokenFile, 'another')
    agents.broker.agentToken = randomUUID()
    agents.broker.refuses = { status: 401 }
    await agents.broker.refused(1)
    agents.broker.refuses = undefined
    await writeFile(enrollTokenFile, ENROLL_TOKEN)
    await agents.broker.registered(2)
    await agents.end(agent)
  })

  test('goes on when a broker that has known the agent refuses it for a while', async () => {
    await agents.begin()
    agents.broker.refuses = { status: 401 }
    await agents.broker.refused(3)
    agents.broker.refuses = undefined
    await agents.broker.registered(2)
  })

  test('keeps the installation over a restart, with a new instance', async () => {
    const { agent } = await agents.begin()
    await agents.end(agent)
    await agents.begin()
    const [first, second] = agents.broker.registrations
    expect(second?.install_id).toBe(first?.install_id)
    expect(second?.instance_id).not.toBe(first?.instance_id)
  })
})

describe('control API', () => {
  test('makes one sandbox per session, tells about it, suspends, wakes and removes it', async () => {
    const ready = await agents.begin()
    const { status, body } = await agents.create(ready, 's1')
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { session_id: 's1', provider: 'local', generation: 1, state: 'running', from_pool: false },
    })
    const path = `/control/v1/sandboxes/${String(body?.sandbox_id)}`
    expect((await agents.create(ready, 's1')).body?.sandbox_id).toBe(body?.sandbox_id)
    expect(await agents.control(ready, 'GET', '/control/v1/sandboxes')).toMatchObject({
      body: { sandboxes: [{ session_id: 's1', activity: { running: 0, attached: 0 } }] },
    })
    expect(await agents.control(ready, 'POST', `${path}/suspend`, { mode: 'freeze' })).toMatchObject({
      status: 200,
      body: { state: 'frozen' },
    })
    expect(await agents.control(ready, 'POST', `${path}/resume`)).toMatchObject({ status: 200, body: { state: 'running' } })
    // 200 while the broker has still to hear of its last event.
    for (const _ of [1, 2]) expect([200, 204]).toContain((await agents.control(ready, 'DELETE', path)).status)
    expect(await agents.control(ready, 'GET', path)).toMatchObject({ status: 404, body: { error: { code: 'BINDING_NOT_FOUND' } } })
  })

  const now = Math.floor(Date.now() / 1000)
  test.each([
    ['no token', () => ''],
    ['another agent', () => agents.broker.controlToken({ aud: 'agt_other' })],
    ['another issuer', () => agents.broker.controlToken({ iss: 'http://elsewhere' })],
    ['longer than a minute', () => agents.broker.controlToken({ iat: now, exp: now + 3600 })],
    ['expired', () => agents.broker.controlToken({ iat: now - 120, exp: now - 70 })],
    ['not the broker', () => agents.broker.controlToken({ sub: 'somebody' })],
    [
      'alg none',
      () =>
        agents.broker.sign(
          { iss: agents.broker.url, aud: agents.broker.agentId, sub: 'broker', iat: now, exp: now + 30, jti: 'x' },
          { alg: 'none' },
        ),
    ],
    [
      'its own key',
      () =>
        agents.broker.sign(
          { iss: agents.broker.url, aud: agents.broker.agentId, sub: 'broker', iat: now, exp: now + 30, jti: 'x' },
          { jwk: {} },
        ),
    ],
    ['a changed payload', () => agents.broker.controlToken().replace(/\.[^.]+\./, `.${Buffer.from('{"iss":"x"}').toString('base64url')}.`)],
  ])('refuses a token with %s', async (_, token) => {
    const ready = await agents.begin()
    expect(await agents.control(ready, 'GET', '/control/v1/sandboxes', undefined, token())).toMatchObject({
      status: 401,
      body: { error: { code: 'UNAUTHENTICATED' } },
    })
  })

  test('[C-50] refuses a token that names another key, and one that names none once the broker says that its tokens do', async () => {
    const status = async (ready: Ready, claims: Record<string, unknown>) =>
      (await agents.control(ready, 'GET', '/control/v1/sandboxes', undefined, agents.broker.controlToken(claims))).status
    type Ready = Awaited<ReturnType<typeof agents.begin>>
    const other = { cnf: { jkt: keyThumbprint('another') } }
    const first = await agents.begin()
    expect([await status(first, {}), await status(first, other)]).toEqual([200, 401])
    await agents.end(first.agent)
    agents.broker.bound = true
    const ready = await agents.begin()
    const own = { cnf: { jkt: keyThumbprint((await openIdentity(agents.dataDir)).publicKey) } }
    expect([await status(ready, {}), await status(ready, other), await status(ready, own)]).toEqual([401, 401, 200])
    // A broker of before answers, beside the one that is not, or in its place.
    agents.broker.bound = undefined
    await expect.poll(() => status(ready, {}), { timeout: 60_000 }).toBe(200)
    expect([await status(ready, other), await status(ready, own)]).toEqual([401, 200])
  })

  test('names the field that is wrong', async () => {
    const ready = await agents.begin()
    const answer = await agents.control(ready, 'PUT', '/control/v1/sessions/s1/sandbox', {
      tenant_id: 't',
      profile: { name: 'x', cpus: -1 },
    })
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'INVALID_REQUEST', message: expect.stringContaining('profile.cpus') } },
    })
    expect(await agents.create(ready, 's1', { isolation: 'container' })).toMatchObject({
      status: 501,
      body: { error: { code: 'UNSUPPORTED' } },
    })
  })
})

describe('heartbeats', () => {
  test('a lost sandbox is reported at once, alone', async () => {
    agents.broker.heartbeatSeconds = 60
    const ready = await agents.begin()
    const { body } = await agents.create(ready, 's1')
    await agents.create(ready, 's2')
    await killSandboxOf(agents.dataDir, String(body?.sandbox_id))
    const { sandboxes } = await agents.broker.heartbeat(({ partial, sandboxes }) => partial && sandboxes.length > 0)
    expect(sandboxes).toMatchObject([{ sandbox_id: body?.sandbox_id, session_id: 's1', state: 'lost' }])
  })

  test('what the broker does not keep is destroyed', async () => {
    const ready = await agents.begin()
    await agents.create(ready, 's1')
    await agents.create(ready, 's2')
    agents.broker.keeps = new Set(['s2'])
    await agents.broker.heartbeat(({ sandboxes }) => sandboxes.length === 1 && sandboxes[0]?.session_id === 's2')
  })
})

describe('pool', () => {
  test('is filled in the background, serves the next session, and is filled again', async () => {
    agents.broker.pools = [profile({ pool_size: 2 })]
    const ready = await agents.begin()
    const inPool = (count: number) =>
      agents.broker.heartbeat(
        ({ sandboxes }) => sandboxes.filter(({ session_id, state }) => session_id === null && state === 'running').length === count,
      )
    await inPool(2)
    expect(await agents.create(ready, 's1', { idle_timeout_seconds: 5 })).toMatchObject({ body: { from_pool: true, session_id: 's1' } })
    expect(await agents.create(ready, 's2', { memory_mb: 64 })).toMatchObject({ body: { from_pool: false } })
    agents.broker.heartbeats.length = 0
    await inPool(2)
  })

  test('is adopted by the next run of the agent, and let go when nobody wants it', async () => {
    agents.broker.pools = [profile({ pool_size: 1 })]
    const pooled = () =>
      agents.broker.heartbeat(({ sandboxes }) => sandboxes.some(({ session_id, state }) => session_id === null && state === 'running'))
    const { agent } = await agents.begin({ destroyOnExit: false })
    const before = (await pooled()).sandboxes[0]?.sandbox_id
    await agents.end(agent)
    agents.broker.heartbeats.length = 0
    const ready = await agents.begin()
    await pooled()
    expect(await agents.create(ready, 's1')).toMatchObject({ body: { from_pool: true, sandbox_id: before } })
    agents.broker.pools = []
    await agents.broker.heartbeat(({ sandboxes }) => sandboxes.every(({ session_id }) => session_id === 's1'))
  })
})

describe('without a provider', () => {
  test('the agent starts, is alive but not ready, and says why and what to do', async () => {
    const ready = await agents.begin({ provider: 'docker', dockerHost: 'unix:///nowhere/docker.sock' })
    expect(ready).toMatchObject({ provider: null, isolation: null })
    expect((await fetch(`${ready.url}/healthz`)).status).toBe(200)
    const readyz = await fetch(`${ready.url}/readyz`)
    expect(readyz.status).toBe(503)
    expect(await readyz.json()).toMatchObject({ reasons: [expect.stringMatching(/engine of --docker-host: no such socket; start it/)] })
    expect(agents.broker.registrations[0]?.provider).toMatchObject({ available: false, reason: expect.stringContaining('no such socket') })
    expect(await agents.create(ready, 's1')).toMatchObject({ status: 503, body: { error: { code: 'BACKEND_UNAVAILABLE' } } })
  })

  test('isolation none is refused where others can reach it, unless it is asked for', async () => {
    const { agent, ...refused } = await agents.begin({ isolation: 'none', publicUrl: 'http://agent.example:7071' })
    expect(refused.provider).toBeNull()
    expect(agents.broker.registrations[0]?.provider.reason).toMatch(/isolation "none" is refused/)
    await agents.end(agent)
    expect(await agents.begin({ isolation: 'none', publicUrl: 'http://agent.example:7071', allowUnsafeLocal: true })).toMatchObject({
      isolation: 'none',
    })
  })

  test('[2.14] metrics count sandboxes, what runs and has ended, and bytes', async () => {
    const ready = await agents.begin()
    const { body } = await agents.create(ready, 's1')
    const sandboxId = String(body?.sandbox_id)
    const now = Math.floor(Date.now() / 1000)
    const claims = { iss: agents.broker.url, aud: sandboxId, sub: 'p', sid: 's1', thread_id: 't', sandbox_id: sandboxId, tid: 't' }
    const token = agents.broker.sign({ ...claims, caps: ['exec'], gen: 1, iat: now, exp: now + 60, jti: randomUUID(), ver: 1 })
    const exec = (command: string) =>
      fetch(`${ready.url}/sandboxes/${sandboxId}/v1/exec`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ command }),
      }).then((response) => response.text())
    expect(await exec('head -c 100000 /dev/zero | tr "\\0" x')).toContain('xxx')
    await exec('sleep 100 & kill -9 $$')
    const metrics = await (await fetch(`${ready.url}/metrics`)).text()
    expect(metrics).toContain('boxoffice_agent_sandboxes{state="running"} 1')
    expect(metrics).toContain('boxoffice_agent_execs_total{kind="exec",reason="exited"} 1')
    expect(metrics).toContain('boxoffice_agent_execs_total{kind="exec",reason="signaled"} 1')
    expect(metrics).toContain('boxoffice_agent_exec_seconds_count{kind="exec"} 2')
    expect(metrics).toMatch(/^boxoffice_agent_processes_running 0$/m)
    expect(Number(/^boxoffice_agent_bytes_total\{direction="out"\} (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(100_000)
    expect(Number(/^boxoffice_agent_bytes_total\{direction="in"\} (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(500)
    expect((await fetch(`${ready.url}/elsewhere`)).status).toBe(404)
  })
})

/** Kills what runs in a sandbox from the host, as an accident would. */
const killSandboxOf = async (directory: string, id: string): Promise<void> => {
  const state = JSON.parse(await readFile(join(directory, 'local', `${id}.json`), 'utf8')) as { supervisor: { pid: number } }
  process.kill(state.supervisor.pid, 'SIGKILL')
}
