import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker({ rateLimits: { authFailures: { perSecond: 1000, burst: 1000 } } })
  await broker.startAgent()
})
afterAll(() => broker.stop())

type Key = { id: string; key?: string; name: string; tenant: string; revoked_at: string | null }

describe('[2.14] API keys', () => {
  test('a key is bxo_ and 43 base64url characters, shown once, kept as a hash', async () => {
    const { status, body } = await broker.post<Key>('/v1/keys', { name: 'ci', principal: 'ci' })
    expect([status, body.key]).toEqual([201, expect.stringMatching(/^bxo_[A-Za-z0-9_-]{43}$/)])
    const { body: list } = await broker.get<{ keys: Key[] }>('/v1/keys')
    expect(list.keys.find(({ id }) => id === body.id)).toMatchObject({ name: 'ci', tenant: 'default', revoked_at: null })
    expect(JSON.stringify(list)).not.toContain(body.key)
    for (const file of ['broker.db', 'broker.db-wal']) expect(readFileSync(join(broker.dataDir, file)).includes(body.key ?? '')).toBe(false)
  })

  test('the key of the first start is kept with mode 0600 and works on later starts', () => {
    const path = join(broker.dataDir, 'api-key')
    expect(readFileSync(path, 'utf8').trim()).toBe(broker.key)
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test('a revoked key is refused at once; a second revocation is 404', async () => {
    const who = await broker.principal('gone')
    expect((await who.get('/v1/profiles')).status).toBe(200)
    expect((await broker.delete(`/v1/keys/${who.keyId}`)).status).toBe(204)
    const { status, headers } = await who.get('/v1/profiles')
    expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
    expect((await broker.delete(`/v1/keys/${who.keyId}`)).status).toBe(404)
  })

  test('keys and audit are for operators; a user sees neither', async () => {
    const user = await broker.principal('user')
    for (const path of ['/v1/keys', '/v1/audit', '/v1/agents']) {
      const { status, body } = await user.get<Refusal>(path)
      expect([status, body.error.code]).toEqual([403, 'FORBIDDEN'])
    }
    expect((await user.post('/v1/keys', { name: 'x', principal: 'x' })).status).toBe(403)
    expect((await user.get('/v1/profiles')).status).toBe(200)
  })

  test('[C-04] an operator of another tenant sees its own keys and audit only, and makes keys for itself only', async () => {
    const other = await broker.principal('op', { role: 'operator', tenant: 'island' })
    await other.ensure('t')
    const keys = (await other.get<{ keys: Key[] }>('/v1/keys')).body.keys
    expect(keys.map(({ tenant }) => tenant)).toEqual(['island'])
    const { entries } = (await other.get<{ entries: { tenant: string }[] }>('/v1/audit')).body
    expect(new Set(entries.map(({ tenant }) => tenant))).toEqual(new Set(['island']))
    expect((await other.post('/v1/keys', { name: 'x', principal: 'x', tenant: 'default' })).status).toBe(403)
    expect((await other.post('/v1/keys', { name: 'x', principal: 'x' })).status).toBe(201)
    const [mine] = (await broker.get<{ keys: Key[] }>('/v1/keys')).body.keys.filter(({ tenant }) => tenant === 'default')
    expect((await other.delete(`/v1/keys/${mine?.id}`)).status).toBe(404)
  })

  test.each([
    ['no name', { principal: 'p' }],
    ['an unknown role', { name: 'n', principal: 'p', role: 'root' }],
    ['an unknown right', { name: 'n', principal: 'p', rights: ['fly'] }],
    ['a control character', { name: 'n\u0000', principal: 'p' }],
  ])('%s: 400', async (_, body) => {
    expect((await broker.post('/v1/keys', body)).status).toBe(400)
  })
})

describe('[4-02, 2.1] credentials', () => {
  const call = (headers: Record<string, string>) => fetch(`${broker.url}/v1/profiles`, { headers })

  test('Bearer and X-Api-Key both work, alone and equal', async () => {
    const good: Record<string, string>[] = [
      { authorization: `Bearer ${broker.key}` },
      { authorization: `bearer  ${broker.key}` },
      { 'x-api-key': broker.key },
      { authorization: `Bearer ${broker.key}`, 'x-api-key': broker.key },
    ]
    for (const headers of good) expect((await call(headers)).status).toBe(200)
  })

  test.each([
    ['none', {}],
    ['Basic', { authorization: 'Basic eDp5' }],
    ['an unknown key', { authorization: `Bearer bxo_${'A'.repeat(43)}` }],
    ['an empty key', { 'x-api-key': '' }],
    ['Bearer alone', { authorization: 'Bearer' }],
    ['a JWT', { authorization: 'Bearer eyJhbGciOiJub25lIn0.e30.AAAA' }],
    ['two words', { authorization: 'Bearer a b' }],
  ])('%s: 401 UNAUTHENTICATED with WWW-Authenticate', async (_, headers) => {
    const response = await call(headers as Record<string, string>)
    const { error } = (await response.json()) as Refusal
    expect([response.status, error.code, error.retryable, response.headers.get('www-authenticate')]).toEqual([
      401,
      'UNAUTHENTICATED',
      false,
      'Bearer',
    ])
  })

  test('two that differ: 401', async () => {
    expect((await call({ authorization: `Bearer ${broker.key}`, 'x-api-key': 'other' })).status).toBe(401)
  })

  test('[C-19] 401 comes before the body is looked at', async () => {
    const response = await fetch(`${broker.url}/v1/sandbox/sessions`, { method: 'POST', headers: { 'x-api-key': 'bad' }, body: '{broken' })
    expect(response.status).toBe(401)
  })

  test('[C-72] refusals are audited', async () => {
    await fetch(`${broker.url}/v1/profiles`, { headers: { 'x-api-key': 'bad', 'x-request-id': 'req_refused' } })
    const { entries } = (await broker.get<{ entries: Record<string, unknown>[] }>('/v1/audit?event=access.refused')).body
    expect(entries.some((entry) => entry.outcome === 'refused' && entry.code === 'UNAUTHENTICATED')).toBe(true)
  })
})

describe('[C-58] limits', () => {
  test('failed authentication is limited per address; a good key still works', async () => {
    const strict = await startTestBroker({ rateLimits: { authFailures: { perSecond: 0.01, burst: 3 } } })
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) statuses.push((await strict.as('bad').get('/v1/profiles')).status)
    expect(statuses).toEqual([401, 401, 401, 429, 429])
    expect((await strict.get('/v1/profiles')).status).toBe(200)
    await strict.stop()
  })

  test('a wrong enroll token and a wrong agent token count like a wrong key, and right ones still work', async () => {
    const strict = await startTestBroker({ rateLimits: { authFailures: { perSecond: 0.01, burst: 3 } } })
    const agent = await strict.startAgent({ heartbeat: false })
    const statuses = [
      (await agent.register({}, 'a-forged-enroll-token')).status,
      (await agent.post(`/v1/agents/${agent.id}/heartbeat`, 'a-forged-agent-token', {})).status,
      (await strict.as('bad').get('/v1/profiles')).status,
      (await agent.register({}, 'a-forged-enroll-token')).status,
      (await agent.post(`/v1/agents/${agent.id}/heartbeat`, 'a-forged-agent-token', {})).status,
      (await strict.as('bad').get('/v1/profiles')).status,
    ]
    expect(statuses).toEqual([401, 401, 401, 429, 429, 429])
    await agent.heartbeat()
    expect((await agent.register()).status).toBe(200)
    await strict.stop()
  })

  test('[4-164, C-59] creating is limited: 429 with Retry-After; existing sessions still answer', async () => {
    const strict = await startTestBroker({ rateLimits: { createPerPrincipal: { perSecond: 0.5, burst: 2 } } })
    await strict.startAgent()
    await Promise.all([strict.ensure('a'), strict.ensure('b')])
    const { status, body, headers } = await strict.refused({ thread_id: 'c', mode: 'ensure' })
    expect([status, body.error.code, body.error.retryable, body.error.details]).toEqual([429, 'RATE_LIMITED', true, { limit: 'create' }])
    expect(headers.get('retry-after')).toMatch(/^[12]$/)
    expect((await strict.negotiate({ thread_id: 'a', mode: 'ensure' })).status).toBe(200)
    await strict.stop()
  })

  test('[2.13] max_sessions: the third is 429, a release makes room', async () => {
    const small = await startTestBroker({ maxSessions: 2 })
    await small.startAgent()
    const [a] = await Promise.all([small.ensure('a'), small.ensure('b')])
    const { status, body } = await small.refused({ thread_id: 'c', mode: 'ensure' })
    expect([status, body.error.code, body.error.details?.limit]).toEqual([429, 'RATE_LIMITED', 'max_sessions'])
    await small.ensure('b')
    await small.release(a.session_id)
    await small.ensure('c')
    await small.stop()
  })
})
