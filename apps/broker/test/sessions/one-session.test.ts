import { decodeJwt } from 'jose'
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

const HOUR = 3600_000

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
    expect(performance.now() - started).toBeLessThan(1000)
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
    expect(agent.calls).toContain(`DELETE /control/v1/sandboxes/${sandbox.id}?keep_workspace=true`)
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

/** [2.5, C-11] One row a situation: what `get` by scope, GET by id, refresh and DELETE answer. */
type Situation = { get: number; read: number; refresh: number; delete: number; again: number; code: string | null }
const matrix: Record<string, Situation & { arrange: () => Promise<string> }> = {
  'never existed': {
    arrange: async () => 'ssn_00000000-0000-4000-8000-000000000000',
    ...{ get: 404, read: 404, refresh: 404, delete: 404, again: 404, code: 'SESSION_NOT_FOUND' },
  },
  active: {
    arrange: async () => (await broker.ensure('t')).session_id,
    ...{ get: 200, read: 200, refresh: 200, delete: 204, again: 404, code: null },
  },
  released: {
    arrange: async () => {
      const { session_id } = await broker.ensure('t')
      await broker.release(session_id)
      return session_id
    },
    ...{ get: 404, read: 404, refresh: 404, delete: 404, again: 404, code: 'SESSION_NOT_FOUND' },
  },
  'past its hard TTL': {
    arrange: async () => {
      const { session_id } = await broker.ensure('t')
      await broker.advance(8 * HOUR)
      return session_id
    },
    ...{ get: 404, read: 410, refresh: 410, delete: 204, again: 404, code: 'SESSION_EXPIRED' },
  },
  'past its hard TTL for a day': {
    arrange: async () => {
      const { session_id } = await broker.ensure('t')
      await broker.advance(8 * HOUR)
      await broker.broker.reap()
      await broker.advance(25 * HOUR)
      return session_id
    },
    ...{ get: 404, read: 404, refresh: 404, delete: 404, again: 404, code: 'SESSION_NOT_FOUND' },
  },
  failed: {
    arrange: async () => {
      const { session_id, sandbox } = await broker.ensure('t')
      const lost = agent.sandboxes.get(sandbox.id)
      if (lost !== undefined) lost.state = 'lost'
      await agent.heartbeat()
      return session_id
    },
    ...{ get: 404, read: 200, refresh: 410, delete: 204, again: 404, code: 'SESSION_EXPIRED' },
  },
  provisioning: {
    arrange: async () => {
      agent.hooks.create = () => new Promise(() => {})
      const { body } = await broker.negotiate<Refusal>({ thread_id: 't', mode: 'ensure' }, { prefer: 'wait=0' })
      return String(body.error.details?.session_id)
    },
    ...{ get: 423, read: 200, refresh: 423, delete: 204, again: 404, code: 'SANDBOX_STARTING' },
  },
  suspended: {
    arrange: async () => {
      const { session_id } = await broker.ensure('t')
      await broker.advance(900_000)
      await broker.broker.reap()
      await broker.broker.settled()
      return session_id
    },
    ...{ get: 200, read: 200, refresh: 200, delete: 204, again: 404, code: null },
  },
}

describe.each(Object.entries(matrix))('[2.5, 4-31, 4-35, C-11] a session that is %s', (_, { arrange, ...expected }) => {
  test('answers by the status matrix', async () => {
    const id = await arrange()
    const read = await broker.read(id)
    const refresh = await broker.refresh<Refusal>(id)
    const get = await broker.negotiate({ thread_id: 't', mode: 'get' })
    const release = await broker.release(id)
    const again = await broker.release(id)
    const answers = { get: get.status, read: read.status, refresh: refresh.status, delete: release.status, again: again.status }
    expect({ ...answers, code: refresh.body.error?.code ?? null }).toEqual(expected)
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
