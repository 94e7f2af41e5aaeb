import { randomUUID } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Profile } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Agent, AgentConfig, type AgentOverrides, type AgentReady, createAgent } from '../../src/index.ts'
import { ENROLL_TOKEN, TestBroker } from './support/broker.ts'
import { silent } from './support/host.ts'

let broker: TestBroker
let dataDir: string
const agents = new Set<Agent>()

const configure = (fields: Record<string, unknown> = {}): AgentConfig =>
  AgentConfig.parse({
    dataDir,
    port: 0,
    brokerUrl: broker.url,
    enrollToken: ENROLL_TOKEN,
    provider: 'local',
    destroyOnExit: true,
    ...fields,
  })

const begin = async (fields: Record<string, unknown> = {}, overrides: AgentOverrides = {}): Promise<AgentReady & { agent: Agent }> => {
  const agent = createAgent(configure(fields), { log: silent, ...overrides })
  agents.add(agent)
  return { agent, ...(await agent.start()) }
}

const end = async (agent: Agent): Promise<void> => {
  agents.delete(agent)
  await agent.close()
}

const control = async (ready: AgentReady, method: string, path: string, body?: unknown, token = broker.controlToken()) => {
  const response = await fetch(ready.controlUrl + path, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: response.status === 204 ? undefined : ((await response.json()) as Record<string, unknown>) }
}

const profile = (fields: Partial<Profile> = {}): Profile => Profile.parse({ name: 'default', ...fields })
const create = (ready: AgentReady, session: string, fields: Partial<Profile> = {}) =>
  control(ready, 'PUT', `/control/v1/sessions/${session}/sandbox`, { tenant_id: 't', profile: profile(fields) })

beforeEach(async () => {
  broker = await TestBroker.start()
  dataDir = await mkdtemp('/tmp/bxa-')
})

afterEach(async () => {
  for (const agent of agents) await end(agent)
  await broker.close()
  await rm(dataDir, { recursive: true, force: true })
})

describe('registration', () => {
  test('says what the agent is and has', async () => {
    const ready = await begin()
    expect(ready).toMatchObject({ agentId: broker.agentId, provider: 'local', isolation: 'bubblewrap' })
    expect(broker.registrations[0]).toMatchObject({
      instance_id: expect.stringMatching(/^[0-9a-f]{12}$/),
      public_url: ready.url,
      control_url: ready.controlUrl,
      provider: { name: 'local', isolation: 'bubblewrap', available: true, reason: null, suspend: ['freeze', 'stop'] },
      sandboxes: [],
    })
  })

  test('goes on until the broker is there, and again when it has forgotten the agent', async () => {
    broker.refuses = { status: 503 }
    const ready = await begin()
    expect(ready.agentId).toBeUndefined()
    expect((await fetch(`${ready.url}/readyz`)).status).toBe(503)
    broker.refuses = undefined
    await broker.heartbeat(() => true)
    expect((await fetch(`${ready.url}/readyz`)).status).toBe(200)
    broker.agentToken = randomUUID()
    await broker.registered(2)
    expect(broker.registrations[1]?.instance_id).toBe(broker.registrations[0]?.instance_id)
  })

  test('ends at the start when the broker refuses the enroll token', async () => {
    broker.refuses = { status: 401 }
    await expect(begin()).rejects.toThrow(/refused the enroll token; .*--enroll-token/)
  })

  test('ends later when the broker was away at the start and then refuses the enroll token', async () => {
    broker.refuses = { status: 503 }
    const refused = Promise.withResolvers<Error>()
    const agent = createAgent(configure(), { log: silent, onRefused: refused.resolve })
    agents.add(agent)
    await agent.start()
    broker.refuses = { status: 401 }
    expect((await refused.promise).message).toMatch(/refused the enroll token/)
  })

  test('goes on when a broker that has known the agent refuses it for a while', async () => {
    await begin()
    broker.refuses = { status: 401 }
    await broker.refused(3)
    broker.refuses = undefined
    await broker.registered(2)
  })

  test('keeps the installation over a restart, with a new instance', async () => {
    const { agent } = await begin()
    await end(agent)
    await begin()
    const [first, second] = broker.registrations
    expect(second?.install_id).toBe(first?.install_id)
    expect(second?.instance_id).not.toBe(first?.instance_id)
  })
})

describe('control API', () => {
  test('makes one sandbox per session, tells about it, suspends, wakes and removes it', async () => {
    const ready = await begin()
    const { status, body } = await create(ready, 's1')
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { session_id: 's1', provider: 'local', generation: 1, state: 'running', from_pool: false },
    })
    const path = `/control/v1/sandboxes/${String(body?.sandbox_id)}`
    expect((await create(ready, 's1')).body?.sandbox_id).toBe(body?.sandbox_id)
    expect(await control(ready, 'GET', '/control/v1/sandboxes')).toMatchObject({
      body: { sandboxes: [{ session_id: 's1', activity: { running: 0, attached: 0 } }] },
    })
    expect(await control(ready, 'POST', `${path}/suspend`, { mode: 'freeze' })).toMatchObject({ status: 200, body: { state: 'frozen' } })
    expect(await control(ready, 'POST', `${path}/resume`)).toMatchObject({ status: 200, body: { state: 'running' } })
    expect((await control(ready, 'DELETE', path)).status).toBe(204)
    expect((await control(ready, 'DELETE', path)).status).toBe(204)
    expect(await control(ready, 'GET', path)).toMatchObject({ status: 404, body: { error: { code: 'BINDING_NOT_FOUND' } } })
  })

  const now = Math.floor(Date.now() / 1000)
  test.each([
    ['no token', () => ''],
    ['another agent', () => broker.controlToken({ aud: 'agt_other' })],
    ['another issuer', () => broker.controlToken({ iss: 'http://elsewhere' })],
    ['longer than a minute', () => broker.controlToken({ iat: now, exp: now + 3600 })],
    ['expired', () => broker.controlToken({ iat: now - 120, exp: now - 70 })],
    ['not the broker', () => broker.controlToken({ sub: 'somebody' })],
    [
      'alg none',
      () => broker.sign({ iss: broker.url, aud: broker.agentId, sub: 'broker', iat: now, exp: now + 30, jti: 'x' }, { alg: 'none' }),
    ],
    [
      'its own key',
      () => broker.sign({ iss: broker.url, aud: broker.agentId, sub: 'broker', iat: now, exp: now + 30, jti: 'x' }, { jwk: {} }),
    ],
    ['a changed payload', () => broker.controlToken().replace(/\.[^.]+\./, `.${Buffer.from('{"iss":"x"}').toString('base64url')}.`)],
  ])('refuses a token with %s', async (_, token) => {
    const ready = await begin()
    expect(await control(ready, 'GET', '/control/v1/sandboxes', undefined, token())).toMatchObject({
      status: 401,
      body: { error: { code: 'UNAUTHENTICATED' } },
    })
  })

  test('names the field that is wrong', async () => {
    const ready = await begin()
    const answer = await control(ready, 'PUT', '/control/v1/sessions/s1/sandbox', { tenant_id: 't', profile: { name: 'x', cpus: -1 } })
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'INVALID_REQUEST', message: expect.stringContaining('profile.cpus') } },
    })
    expect(await create(ready, 's1', { network: 'on' })).toMatchObject({ status: 501, body: { error: { code: 'UNSUPPORTED' } } })
  })
})

describe('heartbeats', () => {
  test('a lost sandbox is reported at once, alone', async () => {
    broker.heartbeatSeconds = 60
    const ready = await begin()
    const { body } = await create(ready, 's1')
    await create(ready, 's2')
    await killSandboxOf(dataDir, String(body?.sandbox_id))
    const { sandboxes } = await broker.heartbeat(({ partial }) => partial)
    expect(sandboxes).toMatchObject([{ sandbox_id: body?.sandbox_id, session_id: 's1', state: 'lost' }])
  })

  test('what the broker does not keep is destroyed', async () => {
    const ready = await begin()
    await create(ready, 's1')
    await create(ready, 's2')
    broker.keeps = new Set(['s2'])
    await broker.heartbeat(({ sandboxes }) => sandboxes.length === 1 && sandboxes[0]?.session_id === 's2')
  })
})

describe('pool', () => {
  test('is filled in the background, serves the next session, and is filled again', async () => {
    broker.pools = [profile({ pool_size: 2 })]
    const ready = await begin()
    const inPool = (count: number) =>
      broker.heartbeat(
        ({ sandboxes }) => sandboxes.filter(({ session_id, state }) => session_id === null && state === 'running').length === count,
      )
    await inPool(2)
    expect(await create(ready, 's1', { idle_timeout_seconds: 5 })).toMatchObject({ body: { from_pool: true, session_id: 's1' } })
    expect(await create(ready, 's2', { memory_mb: 64 })).toMatchObject({ body: { from_pool: false } })
    broker.heartbeats.length = 0
    await inPool(2)
  })

  test('is adopted by the next run of the agent, and let go when nobody wants it', async () => {
    broker.pools = [profile({ pool_size: 1 })]
    const pooled = () =>
      broker.heartbeat(({ sandboxes }) => sandboxes.some(({ session_id, state }) => session_id === null && state === 'running'))
    const { agent } = await begin({ destroyOnExit: false })
    const before = (await pooled()).sandboxes[0]?.sandbox_id
    await end(agent)
    broker.heartbeats.length = 0
    const ready = await begin()
    await pooled()
    expect(await create(ready, 's1')).toMatchObject({ body: { from_pool: true, sandbox_id: before } })
    broker.pools = []
    await broker.heartbeat(({ sandboxes }) => sandboxes.every(({ session_id }) => session_id === 's1'))
  })
})

describe('restart', () => {
  test('sandboxes stay, are reported, and are kept or removed as the broker says', async () => {
    const { agent, ...first } = await begin({ destroyOnExit: false })
    const kept = (await create(first, 's1')).body?.sandbox_id
    await create(first, 's2')
    await end(agent)
    broker.keeps = new Set(['s1'])
    const ready = await begin()
    expect(broker.registrations[1]?.sandboxes.map(({ session_id, state }) => [session_id, state]).sort()).toEqual([
      ['s1', 'running'],
      ['s2', 'running'],
    ])
    await broker.heartbeat(({ sandboxes }) => sandboxes.length === 1)
    expect((await create(ready, 's1')).body?.sandbox_id).toBe(kept)
  })

  test('a sandbox that is not as configured any more is lost, and says why', async () => {
    const { agent, ...first } = await begin({ destroyOnExit: false })
    await create(first, 's1')
    await end(agent)
    await begin({ defaultImage: 'another/image' })
    expect(broker.registrations[1]?.sandboxes).toMatchObject([{ session_id: 's1', state: 'lost', reason: 'config_drift' }])
  })

  test('a second agent on the same data directory is refused and names the first', async () => {
    await begin()
    await expect(begin()).rejects.toThrow(`pid ${process.pid}`)
  })

  test('a data directory whose parents are closed, and whose path is too long for a socket, still works', async () => {
    const closed = join(dataDir, 'closed')
    const deep = join(closed, 'a-rather-long-name-of-a-directory/another-one-of-the-kind/data')
    await mkdir(deep, { recursive: true })
    await chmod(closed, 0o700)
    for (const isolation of ['bubblewrap', 'none']) {
      const { agent, ...ready } = await begin({ dataDir: deep, isolation })
      expect(await create(ready, 's1')).toMatchObject({ status: 200, body: { isolation } })
      await end(agent)
    }
    expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toContain(deep)
  })
})

/** Status and code of a dataplane request with a token of these claims. */
const ask = async (ready: AgentReady, sandboxId: string, claims: Record<string, unknown> = {}): Promise<[number, string | undefined]> => {
  const now = Math.floor(Date.now() / 1000)
  const token = broker.sign({
    iss: broker.url,
    aud: sandboxId,
    sandbox_id: sandboxId,
    sub: 'human',
    sid: 's1',
    thread_id: null,
    tid: 't',
    caps: ['exec'],
    gen: 1,
    iat: now,
    exp: now + 600,
    jti: randomUUID(),
    ver: 1,
    ...claims,
  })
  const response = await fetch(`${ready.url}/sandboxes/${sandboxId}/v1/execs`, { headers: { authorization: `Bearer ${token}` } })
  return [response.status, ((await response.json()) as { error?: { code: string } }).error?.code]
}

describe('[C-77] the clock of the broker', () => {
  const HOUR_MS = 3600_000
  test.each([
    ['ahead', HOUR_MS],
    ['behind', -HOUR_MS],
  ])(
    'an agent whose own clock is an hour %s takes good tokens and refuses bad ones, also when it comes back without its broker',
    async (_, skew) => {
      const overrides = { wall: () => Date.now() + skew }
      const { agent, ...first } = await begin({ destroyOnExit: false }, overrides)
      expect(Math.abs(Date.parse(String(broker.registrations[0]?.clock)) - Date.now() - skew)).toBeLessThan(60_000)
      const sandbox = String((await create(first, 's1')).body?.sandbox_id)
      const judged = async (ready: AgentReady): Promise<void> => {
        const now = Math.floor(Date.now() / 1000)
        expect(await ask(ready, sandbox)).toEqual([200, undefined])
        expect(await ask(ready, sandbox, { exp: now - 60 })).toEqual([401, 'TOKEN_EXPIRED'])
        expect(await ask(ready, sandbox, { iat: now + 60 })).toEqual([401, 'UNAUTHENTICATED'])
      }
      await judged(first)
      await end(agent)
      broker.refuses = { status: 503 }
      const ready = await begin({}, overrides)
      expect(ready.agentId).toBeUndefined()
      await judged(ready)
    },
  )

  test('a clock that is set while the agent runs changes nothing, and is known at the next start', async () => {
    let skew = 0
    const overrides = { wall: () => Date.now() + skew }
    const { agent, ...first } = await begin({ destroyOnExit: false }, overrides)
    const sandbox = String((await create(first, 's1')).body?.sandbox_id)
    skew = -HOUR_MS
    expect(await ask(first, sandbox)).toEqual([200, undefined])
    const beats = broker.heartbeats.length
    await broker.heartbeat(() => broker.heartbeats.length > beats + 1)
    await end(agent)
    broker.refuses = { status: 503 }
    expect(await ask(await begin({}, overrides), sandbox)).toEqual([200, undefined])
  })
})

describe('[C-30] what the broker denied', () => {
  test('is denied by an agent that comes back while its broker is away', async () => {
    const { agent, ...first } = await begin({ destroyOnExit: false })
    const sandbox = String((await create(first, 's1')).body?.sandbox_id)
    const now = Math.floor(Date.now() / 1000)
    const until = now + 600
    const pushed = await control(first, 'POST', '/control/v1/revocations', {
      sessions: [],
      tokens: [{ jti: 'denied', until }],
      grants: [{ session_id: 's1', sub: 'narrowed', caps: ['fs_read'], before: now, until }],
    })
    expect(pushed.status).toBe(204)
    await end(agent)
    broker.refuses = { status: 503 }
    const ready = await begin()
    expect(await ask(ready, sandbox)).toEqual([200, undefined])
    expect(await ask(ready, sandbox, { jti: 'denied' })).toEqual([401, 'UNAUTHENTICATED'])
    expect(await ask(ready, sandbox, { sub: 'narrowed', iat: now })).toEqual([403, 'CAPABILITY_DENIED'])
    expect(await ask(ready, sandbox, { sub: 'narrowed', iat: now + 1 })).toEqual([200, undefined])
  })
})

describe('without a provider', () => {
  test('the agent starts, is alive but not ready, and says why and what to do', async () => {
    const ready = await begin({ provider: 'docker', dockerHost: 'unix:///nowhere/docker.sock' })
    expect(ready).toMatchObject({ provider: null, isolation: null })
    expect((await fetch(`${ready.url}/healthz`)).status).toBe(200)
    const readyz = await fetch(`${ready.url}/readyz`)
    expect(readyz.status).toBe(503)
    expect(await readyz.json()).toMatchObject({ reasons: [expect.stringMatching(/engine of --docker-host: no such socket; start it/)] })
    expect(broker.registrations[0]?.provider).toMatchObject({ available: false, reason: expect.stringContaining('no such socket') })
    expect(await create(ready, 's1')).toMatchObject({ status: 503, body: { error: { code: 'BACKEND_UNAVAILABLE' } } })
  })

  test('isolation none is refused where others can reach it, unless it is asked for', async () => {
    const refused = await begin({ isolation: 'none', publicUrl: 'http://agent.example:7071' })
    expect(refused.provider).toBeNull()
    expect(broker.registrations[0]?.provider.reason).toMatch(/isolation "none" is refused/)
    await end([...agents][0] as Agent)
    expect(await begin({ isolation: 'none', publicUrl: 'http://agent.example:7071', allowUnsafeLocal: true })).toMatchObject({
      isolation: 'none',
    })
  })

  test('[2.14] metrics count sandboxes, what runs and has ended, and bytes', async () => {
    const ready = await begin()
    const { body } = await create(ready, 's1')
    const sandboxId = String(body?.sandbox_id)
    const now = Math.floor(Date.now() / 1000)
    const claims = { iss: broker.url, aud: sandboxId, sub: 'p', sid: 's1', thread_id: 't', sandbox_id: sandboxId, tid: 't' }
    const token = broker.sign({ ...claims, caps: ['exec'], gen: 1, iat: now, exp: now + 60, jti: randomUUID(), ver: 1 })
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
