import { describe, expect } from 'vitest'
import { BoxofficeError, ConnectionError, connect, isCode } from '../src/index.ts'
import { API_KEY, envelope, SESSION_ID } from './fixture/fake-server.ts'
import { test } from './fixture/server-test.ts'

describe('a session', () => {
  test('[4-01] is negotiated with the key, and says what it is', async ({ server }) => {
    const session = await server.client().session('thread-1', { profile: 'default', labels: { a: 'b' } })
    expect(session).toMatchObject({ id: SESSION_ID, threadId: 'thread-1', sandboxId: 'sb_1', provider: 'fake' })
    expect(session.expiresAt.getTime()).toBeGreaterThan(Date.now())
    const [request] = server.requests
    expect(request?.headers.authorization).toBe(`Bearer ${API_KEY}`)
    expect(request?.headers.prefer).toBe('wait=60')
    expect(JSON.parse(String(request?.body))).toEqual({ thread_id: 'thread-1', mode: 'ensure', profile: 'default', labels: { a: 'b' } })
  })

  test('[4-70, 4-75] is negotiated for any scope, by an actor, with what it is to be allowed; renewals stay with both', async ({
    server,
  }) => {
    const actor = { type: 'human', id: 'usr_1' } as const
    const session = await server.client().session({
      scope: { type: 'workspace', id: 'w' },
      mode: 'create_only',
      actor,
      capabilities: ['exec'],
      provider: 'docker',
      relay: 'never',
      members: ['m'],
      labels: { a: 'b' },
    })
    expect(JSON.parse(String(server.requests[0]?.body))).toEqual({
      scope: { type: 'workspace', id: 'w' },
      mode: 'create_only',
      actor,
      requested_capabilities: ['exec'],
      provider_preference: 'docker',
      relay: 'never',
      members: ['m'],
      labels: { a: 'b' },
    })
    await session.refresh()
    expect(JSON.parse(String(server.requests.at(-1)?.body))).toEqual({ actor, requested_capabilities: ['exec'] })
  })

  test('[4-84] a heartbeat says until when its lease is', async ({ server, session }) => {
    const binding = {
      ...{ id: SESSION_ID, scope: { type: 'thread', id: 't' }, sandbox_id: 'sb_1', provider: 'fake', state: 'active' },
      ...{ lease_expires_at: '2026-02-27T21:00:00Z', created_at: '2026-02-27T20:00:00Z', profile: 'default', isolation: 'none' },
      ...{ labels: {}, generation: 1, reason: null },
    }
    server.intercept = () => ({ json: { binding, lease_expires_at: '2026-02-27T21:00:00Z' } })
    expect(await session.heartbeat()).toEqual({ binding, leaseExpiresAt: new Date('2026-02-27T21:00:00Z') })
    expect(server.requests.at(-1)?.path).toBe(`/v1/sandbox/sessions/${SESSION_ID}/heartbeat`)
  })

  test('[C-17] waits for a sandbox that starts, as long as the server asks', async ({ server }) => {
    let asked = 0
    server.intercept = () =>
      ++asked === 1
        ? { status: 423, json: envelope('SANDBOX_STARTING', 'starting', { retryable: true }), headers: { 'retry-after': '1' } }
        : undefined
    const began = performance.now()
    await server.client().session('thread-1')
    expect(asked).toBe(2)
    expect(performance.now() - began).toBeGreaterThan(900)
  })

  test('[4-30] refreshes, and is released once', async ({ server, session }) => {
    const before = session.expiresAt
    await session.refresh()
    expect(session.expiresAt.getTime()).toBeGreaterThanOrEqual(before.getTime())
    await session.release()
    server.intercept = () => ({ status: 404, json: envelope('SESSION_NOT_FOUND', 'gone', { aliases: ['BINDING_NOT_FOUND'] }) })
    await session.release({ keepWorkspace: true })
    expect(server.requests.at(-1)?.path).toBe(`/v1/sandbox/sessions/${SESSION_ID}?keep_workspace=true`)
  })

  test('a token function is asked for each request', async ({ server }) => {
    let asked = 0
    const client = connect(server.url, { token: async () => `jwt-${++asked}` })
    await client.session('a')
    await client.session('b')
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer jwt-1', 'Bearer jwt-2'])
  })
})

describe('an error', () => {
  test('[4-160] is the envelope, with codes that this version does not know too', async ({ server }) => {
    server.intercept = () => ({
      status: 409,
      json: envelope('BRAND_NEW', 'do this', { request_id: 'req_9', details: { a: 1 }, aliases: ['OLD'] }),
      headers: { 'retry-after': '7' },
    })
    const error: unknown = await server
      .client()
      .session('t')
      .catch((error: unknown) => error)
    expect(error).toBeInstanceOf(BoxofficeError)
    expect(error).toMatchObject({
      code: 'BRAND_NEW',
      message: 'do this',
      status: 409,
      retryable: false,
      requestId: 'req_9',
      details: { a: 1 },
      aliases: ['OLD'],
      retryAfter: 7,
    })
  })

  test('[C-45] goes by both of its names', async ({ server }) => {
    server.intercept = () => ({ status: 404, json: envelope('SESSION_NOT_FOUND', 'none') })
    const error: unknown = await server
      .client()
      .session('t', { mode: 'get' })
      .catch((error: unknown) => error)
    expect(isCode(error, 'BINDING_NOT_FOUND')).toBe(true)
    expect(isCode(error, 'FORBIDDEN')).toBe(false)
  })

  test('of something else on that port says so', async ({ server }) => {
    server.intercept = () => ({ status: 502, bytes: Buffer.from('<html>bad gateway</html>') })
    await expect(server.client().session('t')).rejects.toMatchObject({ code: 'INVALID_RESPONSE', status: 502 })
    server.intercept = () => ({ json: { hello: 'world' } })
    await expect(server.client().session('t')).rejects.toMatchObject({ code: 'INVALID_RESPONSE', status: 200 })
  })

  test('is a ConnectionError when nobody listens, and the reason of an abort when it was aborted', async ({ server }) => {
    const nowhere = connect('http://127.0.0.1:9', { apiKey: API_KEY })
    await expect(nowhere.session('t')).rejects.toBeInstanceOf(ConnectionError)
    const reason = new Error('enough')
    await expect(server.client({ signal: AbortSignal.abort(reason) }).session('t')).rejects.toBe(reason)
    expect(() => connect('localhost:7070', { apiKey: API_KEY })).toThrow(/http/)
  })

  test('does not follow a redirect with the key', async ({ server }) => {
    server.intercept = ({ path }) => (path === '/elsewhere' ? undefined : { status: 307, headers: { location: `${server.url}/elsewhere` } })
    await expect(server.client().session('t')).rejects.toMatchObject({ code: 'CONNECTION_FAILED' })
    expect(server.requests.some(({ path }) => path === '/elsewhere')).toBe(false)
  })
})

describe('lists', () => {
  test('sessions over pages', async ({ server }) => {
    const binding = (id: string) => ({
      id,
      scope: { type: 'thread', id: `thread of ${id}` },
      sandbox_id: null,
      provider: null,
      state: 'active',
      lease_expires_at: null,
      created_at: '2026-11-22T00:00:00Z',
      profile: 'default',
      isolation: null,
      labels: {},
      generation: 1,
      reason: null,
    })
    server.intercept = ({ path }) => ({
      json: path.includes('cursor=2')
        ? { sessions: [binding('c')], next_cursor: null }
        : { sessions: [binding('a'), binding('b')], next_cursor: '2' },
    })
    const sessions = await server.client().sessions.list({ state: 'active' })
    expect(sessions.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
    expect(server.requests[0]?.path).toContain('state=active')
  })

  test('keys, which are made and revoked', async ({ server }) => {
    server.intercept = ({ method }) => (method === 'POST' ? { status: 201, json: { id: 'k1', key: 'bxo_secret' } } : undefined)
    const { keys } = server.client()
    expect(await keys.create({ name: 'ci', principal: 'robot', role: 'user' })).toEqual({ id: 'k1', key: 'bxo_secret' })
    await keys.revoke('k1')
    expect(server.requests.at(-1)).toMatchObject({ method: 'DELETE', path: '/v1/keys/k1' })
  })
})
