import { NegotiateResponse } from '@boxoffice/protocol'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeAll(async () => {
  broker = await startTestBroker()
  agent = await broker.startAgent()
})
afterAll(() => broker.stop())

describe('ensure and get', () => {
  test('[4-01, 4-06, 4-07, 4-76, 4-77] ensure of a new thread is 200 with the MVP fields and the full blocks', async () => {
    const { status, headers, body } = await broker.negotiate({ thread_id: 't1', mode: 'ensure' })
    expect(status).toBe(200)
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(headers.get('cache-control')).toBe('no-store')
    expect(NegotiateResponse.parse(body)).toEqual(body)
    expect(body.thread_id).toBe('t1')
    expect(body.session_id).not.toBe(body.sandbox.id)
    expect(body.sandbox.provider).toBe('fake')
    expect(body.binding).toMatchObject({
      id: body.session_id,
      sandbox_id: body.sandbox.id,
      state: 'active',
      scope: { type: 'thread', id: 't1' },
    })
    expect(body.policy).toMatchObject({ idle_timeout_seconds: 900, hard_ttl_seconds: 28800, lease_seconds: 900 })
    expect(body.credentials).toMatchObject({ token_type: 'Bearer', access_token: body.token, expires_at: body.expires_at })
  })

  test('[C-07] ids are ssn_ and sb_ with a UUIDv4', async () => {
    const { session_id, sandbox } = await broker.ensure('t1')
    const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}'
    expect(session_id).toMatch(new RegExp(`^ssn_${uuid}$`))
    expect(sandbox.id).toMatch(new RegExp(`^sb_${uuid}$`))
  })

  test('[4-04] get never creates: 404 SESSION_NOT_FOUND, and the agent is not called', async () => {
    const made = agent.created
    const { status, body } = await broker.refused({ thread_id: 'fresh', mode: 'get' })
    expect([status, body.error.code, body.error.aliases]).toEqual([404, 'SESSION_NOT_FOUND', ['BINDING_NOT_FOUND']])
    expect(agent.created).toBe(made)
  })

  test('[4-05, 4-19] ensure twice and get give the same session, without calling the agent again', async () => {
    const first = await broker.ensure('t2')
    const calls = agent.calls.length
    const second = await broker.ensure('t2')
    const got = await broker.negotiate({ thread_id: 't2', mode: 'get' })
    for (const { session_id, sandbox } of [second, got.body]) expect([session_id, sandbox.id]).toEqual([first.session_id, first.sandbox.id])
    expect(agent.calls.length).toBe(calls)
  })

  test('[4-08, 4-52] expires_at is the exp of the token: UTC, whole seconds, in the future; claims as in the contract', async () => {
    const { token, expires_at, session_id, sandbox } = await broker.ensure('t3')
    const claims = decodeJwt(token)
    expect(expires_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    expect(Date.parse(expires_at) / 1000).toBe(claims.exp)
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now())
    expect(claims).toMatchObject({
      iss: broker.url,
      aud: sandbox.id,
      sub: 'operator',
      sid: session_id,
      thread_id: 't3',
      sandbox_id: sandbox.id,
    })
    expect(claims).toMatchObject({ tid: 'default', caps: ['fs_read', 'fs_write', 'shell', 'exec'], gen: 1, ver: 1 })
    expect((claims.exp ?? 0) - (claims.iat ?? 0)).toBeLessThanOrEqual(900)
  })

  test('[4-09, C-43] base URLs are the registered ones of the agent, whatever Host says', async () => {
    const { body } = await broker.negotiate(
      { thread_id: 't4', mode: 'ensure' },
      { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' },
    )
    expect(body.sandbox.http_base_url).toBe(`${agent.url}/sandboxes/${body.sandbox.id}/v1`)
    expect(body.sandbox.ws_base_url).toBe(`${agent.url.replace('http', 'ws')}/sandboxes/${body.sandbox.id}/v1`)
    expect(body.dataplane).toEqual({ http_base_url: body.sandbox.http_base_url, ws_base_url: body.sandbox.ws_base_url, mode: 'direct' })
  })

  test('[4-18] unknown fields are ignored', async () => {
    expect((await broker.negotiate({ thread_id: 't5', mode: 'ensure', future: 1, nested: { a: [] } })).status).toBe(200)
  })

  test('[4-16] what a client gets and what a sandbox is made with hold no credential of the control plane', async () => {
    const answer = JSON.stringify(await broker.ensure('t6'))
    const made = JSON.stringify([...agent.sandboxes.values()].map(({ request }) => request))
    for (const secret of [broker.key, broker.enrollToken, agent.registration.agent_token])
      for (const text of [answer, made]) expect(text).not.toContain(secret)
    expect(made).not.toContain('eyJ')
  })

  test('[4-17, C-72] acquire is audited with its ids and a hash, never the token', async () => {
    const { body, headers } = await broker.negotiate({ thread_id: 't7', mode: 'ensure' }, { 'x-request-id': 'req_test1' })
    expect(headers.get('x-request-id')).toBe('req_test1')
    const audit = await broker.get<{ entries: Record<string, unknown>[] }>('/v1/audit?event=sandbox.session.acquire&thread_id=t7')
    expect(audit.body.entries).toHaveLength(1)
    expect(audit.body.entries[0]).toMatchObject({
      request_id: 'req_test1',
      caller: 'operator',
      actor: 'operator',
      tenant: 'default',
      thread_id: 't7',
      outcome: 'ok',
      ip: '127.0.0.1',
      session_id: body.session_id,
      sandbox_id: body.sandbox.id,
      token_hash: expect.any(String),
    })
    expect(JSON.stringify(audit.body)).not.toContain(body.token)
  })

  test('acquire, refresh and read are audited with the id of their token', async () => {
    const jtiOf = (token = '') => (JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { jti: string }).jti
    const { session_id: id, token } = await broker.ensure('t-jti')
    const refreshed = await broker.refresh(id)
    const read = await broker.read(id)
    const { body } = await broker.get<{ entries: { event: string; data: unknown }[] }>('/v1/audit?thread_id=t-jti')
    const ids = body.entries.filter(({ data }) => data !== null).map(({ event, data }) => [event, data])
    expect(ids).toEqual([
      ['sandbox.session.read', { jti: jtiOf(read.body.token) }],
      ['sandbox.session.refresh', { jti: jtiOf(refreshed.body.token) }],
      ['sandbox.session.acquire', { jti: jtiOf(token) }],
    ])
  })

  test('labels and profile are kept; the profile of a live session does not change', async () => {
    const { binding } = await broker.ensure('t8', { labels: { team: 'red' }, profile: 'network_basic' })
    expect(binding).toMatchObject({ labels: { team: 'red' }, profile: 'network_basic' })
    expect((await broker.ensure('t8', { profile: 'network_basic' })).warnings).toEqual([])
    const other = await broker.ensure('t8', { profile: 'default' })
    expect([other.binding.profile, other.warnings]).toEqual(['network_basic', ['profile_differs']])
    const refused = await broker.refused({ thread_id: 't8', mode: 'ensure', profile: 'default', on_mismatch: 'fail' })
    expect([refused.status, refused.body.error.code]).toEqual([409, 'SESSION_CONFLICT']) // [C-20 c]
    expect((await broker.refused({ thread_id: 't9', mode: 'ensure', profile: 'nope' })).body.error).toMatchObject({
      code: 'INVALID_REQUEST',
    })
  })
})

describe('[4-03, C-08] what is wrong with a request is named', () => {
  const bad: [string, Record<string, unknown>, string][] = [
    ['no thread_id', { mode: 'get' }, 'thread_id'],
    ['no mode', { thread_id: 't' }, 'mode'],
    ['empty thread_id', { thread_id: '', mode: 'get' }, 'thread_id'],
    ['thread_id of another type', { thread_id: 7, mode: 'get' }, 'thread_id'],
    ['mode of another type', { thread_id: 't', mode: true }, 'mode'],
    ['unknown mode', { thread_id: 't', mode: 'x' }, 'mode'],
    ['leading white space', { thread_id: ' t', mode: 'get' }, 'thread_id'],
    ['trailing white space', { thread_id: 't\u00a0', mode: 'get' }, 'thread_id'],
    ['NUL', { thread_id: 'a\u0000b', mode: 'ensure' }, 'thread_id'],
    ['line feed', { thread_id: 'a\nb', mode: 'ensure' }, 'thread_id'],
    ['10 kB', { thread_id: 'x'.repeat(10_000), mode: 'ensure' }, 'thread_id'],
    ['257 characters', { thread_id: 'x'.repeat(257), mode: 'ensure' }, 'thread_id'],
    ['labels that are no map', { thread_id: 't', mode: 'ensure', labels: ['a'] }, 'labels'],
    ['unknown relay', { thread_id: 't', mode: 'ensure', relay: 'maybe' }, 'relay'],
  ]
  test.each(bad)('%s', async (_, request, field) => {
    const { status, body } = await broker.refused(request)
    expect([status, body.error.code, body.error.retryable]).toEqual([400, 'INVALID_REQUEST', false])
    expect(body.error.message.startsWith(field)).toBe(true)
  })

  test.each(['a', '0', 'tråd', '線程', 'a b', 'x'.repeat(256), '../etc', "'; DROP TABLE sessions; --", '{"a":1}', '🧵'])(
    '%j is a thread id',
    async (id) => {
      expect((await broker.ensure(id)).thread_id).toBe(id)
    },
  )

  test('ids are compared as bytes: NFC is not NFD, upper is not lower case', async () => {
    const ids = await Promise.all(['\u00e9', 'e\u0301', '\u00c9'].map((id) => broker.ensure(id)))
    expect(new Set(ids.map(({ session_id }) => session_id)).size).toBe(3)
  })
})

describe('[4-11, 4-31, 4-35, C-01..C-04] who may use a thread', () => {
  test('the first ensure claims it; others of the tenant are refused; other tenants have their own', async () => {
    const [a1, a2, ax] = await Promise.all([broker.principal('a1'), broker.principal('a2'), broker.principal('ax', { tenant: 'other' })])
    expect((await a2.refused({ thread_id: 'owned', mode: 'get' })).status).toBe(404) // get never claims
    const mine = await a1.ensure('owned')
    for (const mode of ['get', 'ensure']) {
      const { status, body } = await a2.refused({ thread_id: 'owned', mode })
      expect([status, body.error.code]).toEqual([403, 'FORBIDDEN'])
    }
    const theirs = await ax.ensure('owned')
    expect(theirs.session_id).not.toBe(mine.session_id)
    expect((await broker.ensure('owned')).session_id).toBe(mine.session_id) // an operator may use all of its tenant
    for (const call of [(id: string) => ax.read(id), (id: string) => ax.refresh(id), (id: string) => ax.release(id)])
      expect((await call(mine.session_id)).status).toBe(404)
    for (const call of [(id: string) => a2.read(id), (id: string) => a2.refresh(id), (id: string) => a2.release(id)])
      expect((await call(mine.session_id)).status).toBe(403)
    expect((await a1.release(mine.session_id)).status).toBe(204)
    expect((await a2.refused({ thread_id: 'owned', mode: 'ensure' })).status).toBe(403) // still a1's
  })

  test('[C-02] two principals race for one thread: one 200, one 403', async () => {
    const [a, b] = await Promise.all([broker.principal('racer-a'), broker.principal('racer-b')])
    for (let round = 0; round < 10; round++) {
      const statuses = await Promise.all(
        [a, b].map((p) => p.negotiate({ thread_id: `race-${round}`, mode: 'ensure' }).then(({ status }) => status)),
      )
      expect(statuses.sort()).toEqual([200, 403])
    }
  })

  test('[4-15, C-58] 300 parallel ensures of one thread: one session, one sandbox', async () => {
    const made = agent.created
    const all = await Promise.all(Array.from({ length: 300 }, () => broker.ensure('parallel'))) // more than may create at once [C-58]
    expect(new Set(all.map(({ session_id, sandbox }) => `${session_id} ${sandbox.id}`)).size).toBe(1)
    expect(agent.created).toBe(made + 1)
  })
})

test('GET lists what the caller may use, in pages without repeats while others are created', async () => {
  const lister = await broker.principal('lister')
  for (let i = 0; i < 24; i += 8)
    await Promise.all(Array.from({ length: 8 }, (_, j) => lister.ensure(`page-${i + j}`, { labels: { n: String(i + j) } })))
  const seen: string[] = []
  let cursor = ''
  for (let page = 0; page < 3; page++) {
    const { body } = await lister.get<{ sessions: { id: string }[]; next_cursor: string | null }>(`/v1/sandbox/sessions?limit=10${cursor}`)
    seen.push(...body.sessions.map(({ id }) => id))
    cursor = `&cursor=${body.next_cursor}`
    expect(body.next_cursor === null).toBe(page === 2)
    await lister.ensure(`later-${page}`)
  }
  expect(seen).toHaveLength(24)
  expect(new Set(seen).size).toBe(24)
  const one = await lister.get<{ sessions: unknown[] }>('/v1/sandbox/sessions?label=n:7')
  expect(one.body.sessions).toHaveLength(1)
  const scoped = await lister.get<{ sessions: unknown[] }>('/v1/sandbox/sessions?scope_type=thread&scope_id=page-3&state=active')
  expect(scoped.body.sessions).toHaveLength(1)
  expect((await lister.get('/v1/sandbox/sessions?cursor=nonsense')).status).toBe(400)
})

test('GET lists ended sessions to whoever owned their scope, by state and scope; by label only live ones', async () => {
  const [owner, other] = await Promise.all([broker.principal('past'), broker.principal('past-other')])
  const { session_id } = await owner.ensure('past')
  await owner.release(session_id)
  const listed = async (who: { get: TestBroker['get'] }, query: string) =>
    (await who.get<{ sessions: { id: string }[] }>(`/v1/sandbox/sessions?${query}`)).body.sessions.map(({ id }) => id)
  expect(await listed(owner, 'state=terminated')).toEqual([session_id])
  expect(await listed(owner, 'state=terminated&scope_id=past')).toEqual([session_id])
  expect(await listed(owner, 'scope_id=past')).toEqual([])
  expect(await listed(other, 'state=terminated')).toEqual([])
  expect(await listed(broker, 'state=terminated&scope_type=thread&scope_id=past')).toEqual([session_id])
  expect((await owner.get('/v1/sandbox/sessions?state=terminated&label=a:b')).status).toBe(400)
})
