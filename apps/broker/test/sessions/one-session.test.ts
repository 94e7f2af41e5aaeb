import { decodeJwt } from 'jose'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { gate, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker({ profiles: [{ name: 'leased', lease_seconds: 2, on_lease_expiry: 'terminate' }] })
  agent = await broker.startAgent()
})
afterEach(() => broker.stop())

const HOUR = 3600_000

/** Time in which nobody uses a sandbox. */
const pass = async (ms: number) => {
  for (const sandbox of agent.sandboxes.values()) sandbox.activity.idle_ms += ms
  await broker.advance(ms)
  await broker.broker.reap()
  await broker.broker.settled()
}

describe('refresh', () => {
  test('[4-30, 4-32] a new token with its own jti and a later exp, also without a body', async () => {
    const { session_id, token } = await broker.ensure('t')
    await broker.advance(2000)
    for (const body of [{}, undefined]) {
      const { status, body: fresh, headers } = await broker.refresh(session_id, body)
      expect(status).toBe(200)
      expect(headers.get('cache-control')).toBe('no-store')
      expect(Object.keys(fresh).sort()).toEqual(['expires_at', 'token'])
      const [before, after] = [decodeJwt(token), decodeJwt(fresh.token)]
      expect(after.jti).not.toBe(before.jti)
      expect(after.exp).toBeGreaterThan(before.exp ?? 0)
      expect(Date.parse(fresh.expires_at) / 1000).toBe(after.exp)
    }
  })

  test('[4-33] takes the server credential, not a session token', async () => {
    const { session_id, token } = await broker.ensure('t')
    const { status, body } = await broker.as(token).refresh<Refusal>(session_id)
    expect([status, body.error.code]).toEqual([401, 'UNAUTHENTICATED'])
  })

  test('[C-26, 4-50] works after the token ran out; the token never outlives the hard TTL; then 410', async () => {
    const { session_id } = await broker.ensure('t')
    await broker.advance(HOUR)
    expect((await broker.refresh(session_id)).status).toBe(200)
    await broker.advance(7 * HOUR - 5 * 60_000)
    const last = decodeJwt((await broker.refresh(session_id)).body.token)
    expect((last.exp ?? 0) - (last.iat ?? 0)).toBeLessThanOrEqual(300)
    await broker.advance(5 * 60_000)
    const { status, body } = await broker.refresh<Refusal>(session_id)
    expect([status, body.error.code, body.error.aliases]).toEqual([410, 'SESSION_EXPIRED', ['BINDING_EXPIRED']])
  })

  test('[C-51, C-52] an MVP refresh moves the lease', async () => {
    const { session_id, binding } = await broker.ensure('t')
    await broker.advance(60_000)
    await broker.refresh(session_id)
    const { body } = await broker.read(session_id, '?token=false')
    expect(Date.parse(body.binding.lease_expires_at ?? '') - Date.parse(binding.lease_expires_at ?? '')).toBeGreaterThanOrEqual(59_000)
  })
})

describe('[4-83, 4-84, 4-85, C-51, C-52] refresh-token and heartbeat', () => {
  const lease = async (id: string) => Date.parse((await broker.read(id, '?token=false')).body.binding.lease_expires_at ?? '')
  const made = {
    mvp: async () => (await broker.ensure('t')).session_id,
    full: async () => (await broker.negotiate({ scope: { type: 'thread', id: 't' }, mode: 'ensure' })).body.session_id,
  }

  test('refresh-token gives credentials beside the MVP fields', async () => {
    const id = await made.full()
    const { status, headers, body } = await broker.refreshToken(id)
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store'])
    expect(Object.keys(body).sort()).toEqual(['credentials', 'expires_at', 'token'])
    expect(body.credentials).toEqual({
      token_type: 'Bearer',
      access_token: body.token,
      expires_at: body.expires_at,
      granted_capabilities: ['fs_read', 'fs_write', 'shell', 'exec'],
    })
    expect(Date.parse(body.expires_at) / 1000).toBe(decodeJwt(body.token).exp)
  })

  test('heartbeat gives the binding and its lease, and no token', async () => {
    const id = await made.full()
    const before = await lease(id)
    await broker.advance(60_000)
    const { status, body } = await broker.heartbeat(id)
    expect(status).toBe(200)
    expect(Object.keys(body).sort()).toEqual(['binding', 'lease_expires_at'])
    expect(body.binding).toMatchObject({ id, state: 'active', lease_expires_at: body.lease_expires_at })
    expect(Date.parse(body.lease_expires_at) - before).toBeGreaterThanOrEqual(59_000)
    expect(await lease(id)).toBe(Date.parse(body.lease_expires_at))
    expect(JSON.stringify(body)).not.toContain('eyJ')
  })

  /** Who moves the lease: [made in the shape, by the call, whether]. */
  test.each([
    ['mvp', 'refresh', true],
    ['mvp', 'refreshToken', false],
    ['mvp', 'heartbeat', true],
    ['full', 'refresh', false],
    ['full', 'refreshToken', false],
    ['full', 'heartbeat', true],
  ] as const)('a session made in %s shape: %s moves its lease: %s', async (shape, call, moves) => {
    const id = await made[shape]()
    const before = await lease(id)
    await broker.advance(60_000)
    expect((await broker[call](id)).status).toBe(200)
    const moved = (await lease(id)) - before
    if (moves) expect(moved).toBeGreaterThanOrEqual(59_000)
    else expect(moved).toBe(0)
  })

  test('[C-53] neither wakes a suspended session; its lease moves', async () => {
    const id = await made.mvp()
    await pass(900_000)
    const before = await lease(id)
    for (const call of ['heartbeat', 'refresh', 'refreshToken'] as const) expect((await broker[call](id)).status).toBe(200)
    const { binding } = (await broker.read(id, '?token=false')).body
    expect([binding.state, agent.calls.filter((path) => path.endsWith('/resume'))]).toEqual(['suspended', []])
    expect(await lease(id)).toBeGreaterThan(before)
  })

  test('[C-51] a lease kept by heartbeats does not run out, one without does', async () => {
    const { session_id } = await broker.ensure('t', { profile: 'leased' })
    for (let i = 0; i < 4; i++) {
      await pass(1500)
      expect((await broker.heartbeat(session_id)).status).toBe(200)
    }
    await pass(3000)
    const { status, body } = await broker.heartbeat<Refusal>(session_id)
    expect([status, body.error.code, body.error.details]).toEqual([410, 'SESSION_EXPIRED', { reason: 'lease' }])
  })
})

/** [C-45, C-46] By route, and on negotiate by the shape of the request: the name that an error shows, and the other one. */
test.each([
  ['POST', '', { thread_id: 'none', mode: 'get' }, 404, 'SESSION_NOT_FOUND', ['BINDING_NOT_FOUND']],
  ['POST', '', { scope: { type: 'thread', id: 'none' }, mode: 'get' }, 404, 'BINDING_NOT_FOUND', ['SESSION_NOT_FOUND']],
  ['POST', '', { thread_id: 't', mode: 'create_only' }, 409, 'SESSION_CONFLICT', ['BINDING_CONFLICT']],
  ['POST', '', { scope: { type: 'thread', id: 't' }, mode: 'create_only' }, 409, 'BINDING_CONFLICT', ['SESSION_CONFLICT']],
  ['POST', '', { thread_id: 'p', mode: 'ensure', provider_preference: 'docker' }, 503, 'PROVIDER_UNAVAILABLE', ['BACKEND_UNAVAILABLE']],
  [
    ...(['POST', '', { scope: { type: 'thread', id: 'p' }, mode: 'ensure', provider_preference: 'docker' }] as const),
    ...([503, 'BACKEND_UNAVAILABLE', ['PROVIDER_UNAVAILABLE']] as const),
  ],
  ['GET', '/ssn_none', undefined, 404, 'BINDING_NOT_FOUND', ['SESSION_NOT_FOUND']],
  ['POST', '/ssn_none/refresh', {}, 404, 'SESSION_NOT_FOUND', ['BINDING_NOT_FOUND']],
  ['POST', '/ssn_none/refresh-token', {}, 404, 'BINDING_NOT_FOUND', ['SESSION_NOT_FOUND']],
  ['POST', '/ssn_none/heartbeat', {}, 404, 'BINDING_NOT_FOUND', ['SESSION_NOT_FOUND']],
  ['DELETE', '/ssn_none', undefined, 404, 'SESSION_NOT_FOUND', ['BINDING_NOT_FOUND']],
  ['POST', '/ended/refresh', {}, 410, 'SESSION_EXPIRED', ['BINDING_EXPIRED']],
  ['POST', '/ended/refresh-token', {}, 410, 'SESSION_EXPIRED', ['BINDING_EXPIRED']],
] as const)('[C-45, C-46] %s %s %j is %i %s, also known as %j', async (method, path, body, status, code, aliases) => {
  const ended = (await broker.ensure('ended', { profile: 'leased' })).session_id
  await pass(3000)
  await broker.ensure('t')
  const reply = await broker.send<Refusal>(method, `/v1/sandbox/sessions${path.replace('ended', ended)}`, body)
  expect([reply.status, reply.body.error.code, reply.body.error.aliases]).toEqual([status, code, aliases])
})

describe('release', () => {
  test('[4-34, 4-36, 4-37, C-30] 204 and empty; the sandbox is destroyed, its tokens revoked; ensure gives a new session', async () => {
    const { session_id, sandbox } = await broker.ensure('t')
    const { status, body } = await broker.release(session_id)
    expect([status, body]).toEqual([204, undefined])
    await broker.broker.settled()
    expect(agent.sandboxes.has(sandbox.id)).toBe(false)
    expect(agent.revoked.get(session_id)).toBe('released')
    const next = await broker.ensure('t')
    expect(next.session_id).not.toBe(session_id)
    expect(next.sandbox.id).not.toBe(sandbox.id)
  })

  test('[C-25] ensure straight after release does not wait for the old sandbox', async () => {
    const torn = gate<undefined>()
    agent.hooks.destroy = () => torn.promise
    const { session_id } = await broker.ensure('t')
    await broker.release(session_id)
    const started = performance.now()
    expect((await broker.ensure('t')).session_id).not.toBe(session_id)
    expect(performance.now() - started).toBeLessThan(30_000)
    torn.open(undefined)
  })

  test('[C-54] takes the owner or the right "release"', async () => {
    const [owner, other] = await Promise.all([broker.principal('owner'), broker.principal('other', { rights: ['release'] })])
    const { session_id } = await owner.ensure('t')
    expect((await other.release(session_id)).status).toBe(403) // the right is no access
    expect((await owner.release(session_id)).status).toBe(204)
    expect((await owner.release(session_id)).status).toBe(404)
  })

  test('[C-55] keep_workspace goes to the agent', async () => {
    const { session_id, sandbox } = await broker.ensure('t')
    await broker.delete(`/v1/sandbox/sessions/${session_id}?keep_workspace=true`)
    await broker.broker.settled()
    expect(agent.calls).toContain(`DELETE /control/v1/sandboxes/${sandbox.id}?reason=released&keep_workspace=true`)
  })

  test('[C-30] an agent that missed the push learns it from its next report', async () => {
    const { session_id, sandbox } = await broker.ensure('t')
    agent.hooks.destroy = async () => ({ status: 500, code: 'INTERNAL', message: 'not now' })
    await broker.release(session_id)
    const { decisions, revocations } = await agent.heartbeat()
    expect(decisions).toContainEqual({ sandbox_id: sandbox.id, action: 'destroy' })
    expect(revocations.sessions).toContainEqual({ session_id, reason: 'released', until: expect.any(Number) })
  })
})

/**
 * [2.5, C-11] One row a situation: what `get` and `attach_only` by scope, GET by id, the two refreshes and heartbeat, and DELETE
 * (once and again) answer. `code` is the MVP's name of what /refresh says.
 */
type Situation = { get: number; read: number; refresh: number; delete: number; again: number; code: string | null }
const matrix: Record<string, Situation & { arrange: () => Promise<string> }> = {
  'never existed': {
    arrange: async () => 'ssn_00000000-0000-4000-8000-000000000000',
    get: 404,
    read: 404,
    refresh: 404,
    delete: 404,
    again: 404,
    code: 'SESSION_NOT_FOUND',
  },
  active: {
    arrange: async () => (await broker.ensure('t')).session_id,
    get: 200,
    read: 200,
    refresh: 200,
    delete: 204,
    again: 404,
    code: null,
  },
  released: {
    arrange: async () => {
      const { session_id } = await broker.ensure('t')
      await broker.release(session_id)
      return session_id
    },
    get: 404,
    read: 404,
    refresh: 404,
    delete: 404,
    again: 404,
    code: 'SESSION_NOT_FOUND',
  },
  'past its hard TTL': {
    arrange: async () => {
      const { session_id } = await broker.ensure('t')
      await broker.advance(8 * HOUR)
      return session_id
    },
    get: 404,
    read: 410,
    refresh: 410,
    delete: 204,
    again: 404,
    code: 'SESSION_EXPIRED',
  },
  'past its hard TTL for a day': {
    arrange: async () => {
      const { session_id } = await broker.ensure('t')
      await broker.advance(8 * HOUR)
      await broker.broker.reap()
      await broker.advance(25 * HOUR)
      return session_id
    },
    get: 404,
    read: 404,
    refresh: 404,
    delete: 404,
    again: 404,
    code: 'SESSION_NOT_FOUND',
  },
  'past its lease, which ends it': {
    arrange: async () => {
      const { session_id } = await broker.ensure('t', { profile: 'leased' })
      await pass(3000)
      return session_id
    },
    get: 404,
    read: 410,
    refresh: 410,
    delete: 204,
    again: 404,
    code: 'SESSION_EXPIRED',
  },
  failed: {
    arrange: async () => {
      const { session_id, sandbox } = await broker.ensure('t')
      const lost = agent.sandboxes.get(sandbox.id)
      if (lost !== undefined) lost.state = 'lost'
      await agent.heartbeat()
      return session_id
    },
    get: 404,
    read: 200,
    refresh: 410,
    delete: 204,
    again: 404,
    code: 'SESSION_EXPIRED',
  },
  provisioning: {
    arrange: async () => {
      agent.hooks.create = () => new Promise(() => {})
      const { body } = await broker.negotiate<Refusal>({ thread_id: 't', mode: 'ensure' }, { prefer: 'wait=0' })
      return String(body.error.details?.session_id)
    },
    get: 423,
    read: 200,
    refresh: 423,
    delete: 204,
    again: 404,
    code: 'SANDBOX_STARTING',
  },
  suspended: {
    arrange: async () => {
      const { session_id } = await broker.ensure('t')
      await pass(900_000)
      expect((await broker.read(session_id)).body.binding.state).toBe('suspended')
      return session_id
    },
    get: 200,
    read: 200,
    refresh: 200,
    delete: 204,
    again: 404,
    code: null,
  },
}

describe.each(Object.entries(matrix))('[2.5, 4-31, 4-35, C-11] a session that is %s', (_, { arrange, ...expected }) => {
  test('answers by the status matrix', async () => {
    const id = await arrange()
    const read = await broker.read(id)
    const refresh = await broker.refresh<Refusal>(id)
    const others = [await broker.refreshToken(id), await broker.heartbeat(id)]
    const attach = await broker.negotiate({ scope: { type: 'thread', id: 't' }, mode: 'attach_only' })
    const get = await broker.negotiate({ thread_id: 't', mode: 'get' })
    const release = await broker.release(id)
    const again = await broker.release(id)
    const answers = { get: get.status, read: read.status, refresh: refresh.status, delete: release.status, again: again.status }
    expect({ ...answers, code: refresh.body.error?.code ?? null }).toEqual(expected)
    expect([...others, attach].map(({ status }) => status)).toEqual([expected.refresh, expected.refresh, expected.get])
  })
})

test('[4-82] GET by id is the acquire response with a fresh token, audited; token=false leaves the token fields out', async () => {
  const made = await broker.ensure('t')
  const { body } = await broker.read(made.session_id)
  expect(Object.keys(body).sort()).toEqual(Object.keys(made).sort())
  expect(body.token).not.toBe(made.token)
  const bare = await broker.read(made.session_id, '?token=false')
  for (const field of ['token', 'expires_at', 'credentials', 'token_type']) expect(bare.body).not.toHaveProperty(field)
  const audit = await broker.get<{ entries: unknown[] }>(`/v1/audit?event=sandbox.session.read&session_id=${made.session_id}`)
  expect(audit.body.entries).toHaveLength(1)
})
