import { once } from 'node:events'
import { connect } from 'node:net'
import { ErrorEnvelope, type NegotiateResponse } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let session: NegotiateResponse
beforeAll(async () => {
  broker = await startTestBroker({
    compat: { box: true, sbs: true },
    rateLimits: { authFailures: { perSecond: 1000, burst: 1000 } },
  })
  await broker.startAgent()
  session = await broker.ensure('t')
})
afterAll(() => broker.stop())

type Case = {
  method: string
  path: string
  body?: string
  headers?: Record<string, string>
  anonymous?: true
  status: number
  code: string
}
const sessions = '/v1/sandbox/sessions'
const json = { 'content-type': 'application/json' }
const missing = `${sessions}/ssn_00000000-0000-4000-8000-000000000000`

/** [4-160, C-44, C-80] What callers do wrong, and what they get. */
const cases: Record<string, Case> = {
  'unknown route': { method: 'GET', path: '/nope', status: 404, code: 'NOT_FOUND' },
  'unknown route under a known one': { method: 'GET', path: `${missing}/nope`, status: 404, code: 'NOT_FOUND' },
  'unknown route with POST': { method: 'POST', path: '/v2/sandbox/sessions', body: '{}', headers: json, status: 404, code: 'NOT_FOUND' },
  root: { method: 'GET', path: '/', status: 404, code: 'NOT_FOUND' },
  'a path that cannot be decoded': { method: 'GET', path: '/%ff%fe', status: 404, code: 'NOT_FOUND' },
  'wrong method': { method: 'PATCH', path: sessions, status: 405, code: 'METHOD_NOT_ALLOWED' },
  'wrong method on one session': { method: 'POST', path: missing, status: 405, code: 'METHOD_NOT_ALLOWED' },
  'GET on refresh': { method: 'GET', path: `${missing}/refresh`, status: 405, code: 'METHOD_NOT_ALLOWED' },
  'DELETE on healthz': { method: 'DELETE', path: '/healthz', status: 405, code: 'METHOD_NOT_ALLOWED' },
  'OPTIONS without CORS': { method: 'OPTIONS', path: sessions, status: 405, code: 'METHOD_NOT_ALLOWED' },
  'no credential': { method: 'POST', path: sessions, body: '{}', headers: json, anonymous: true, status: 401, code: 'UNAUTHENTICATED' },
  'no credential, list': { method: 'GET', path: sessions, anonymous: true, status: 401, code: 'UNAUTHENTICATED' },
  'no credential, delete': { method: 'DELETE', path: missing, anonymous: true, status: 401, code: 'UNAUTHENTICATED' },
  'no credential, keys': { method: 'GET', path: '/v1/keys', anonymous: true, status: 401, code: 'UNAUTHENTICATED' },
  'no credential, agent': {
    method: 'POST',
    path: '/v1/agents/register',
    body: '{}',
    headers: json,
    anonymous: true,
    status: 401,
    code: 'UNAUTHENTICATED',
  },
  'malformed JSON': { method: 'POST', path: sessions, body: '{"thread_id":', headers: json, status: 400, code: 'INVALID_REQUEST' },
  'JSON that is no object': { method: 'POST', path: sessions, body: '[1]', headers: json, status: 400, code: 'INVALID_REQUEST' },
  'JSON null': { method: 'POST', path: sessions, body: 'null', headers: json, status: 400, code: 'INVALID_REQUEST' },
  'an empty body': { method: 'POST', path: sessions, headers: json, status: 400, code: 'INVALID_REQUEST' },
  'bytes that are no UTF-8': { method: 'POST', path: sessions, body: '\u0000\ud800', headers: json, status: 400, code: 'INVALID_REQUEST' },
  'unknown mode': {
    method: 'POST',
    path: sessions,
    body: '{"thread_id":"t","mode":"x"}',
    headers: json,
    status: 400,
    code: 'INVALID_REQUEST',
  },
  'a scope of no known type': {
    method: 'POST',
    path: sessions,
    body: '{"scope":{"type":"team","id":"t"},"mode":"ensure"}',
    headers: json,
    status: 400,
    code: 'INVALID_REQUEST',
  },
  'thread_id and another scope': {
    method: 'POST',
    path: sessions,
    body: '{"thread_id":"t","scope":{"type":"workspace","id":"t"},"mode":"ensure"}',
    headers: json,
    status: 400,
    code: 'INVALID_REQUEST',
  },
  'a body too large': {
    method: 'POST',
    path: sessions,
    body: `{"a":"${'x'.repeat(70_000)}"}`,
    headers: json,
    status: 413,
    code: 'PAYLOAD_TOO_LARGE',
  },
  'text/plain': {
    method: 'POST',
    path: sessions,
    body: '{"thread_id":"t","mode":"get"}',
    headers: { 'content-type': 'text/plain' },
    status: 415,
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  'a compressed body': {
    method: 'POST',
    path: sessions,
    body: '{"thread_id":"t","mode":"get"}',
    headers: { ...json, 'content-encoding': 'gzip' },
    status: 415,
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  'an encoding that is none': {
    method: 'POST',
    path: sessions,
    body: '{"thread_id":"none","mode":"get"}',
    headers: { ...json, 'content-encoding': 'identity' },
    status: 404,
    code: 'SESSION_NOT_FOUND',
  },
  'a form': {
    method: 'POST',
    path: `${missing}/refresh`,
    body: '{}',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    status: 415,
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  'get of nothing': {
    method: 'POST',
    path: sessions,
    body: '{"thread_id":"none","mode":"get"}',
    headers: json,
    status: 404,
    code: 'SESSION_NOT_FOUND',
  },
  'attach to nothing': {
    method: 'POST',
    path: sessions,
    body: '{"scope":{"type":"thread","id":"none"},"mode":"attach_only"}',
    headers: json,
    status: 404,
    code: 'BINDING_NOT_FOUND',
  },
  'refresh-token of nothing': { method: 'POST', path: `${missing}/refresh-token`, status: 404, code: 'BINDING_NOT_FOUND' },
  'heartbeat of nothing': { method: 'POST', path: `${missing}/heartbeat`, status: 404, code: 'BINDING_NOT_FOUND' },
  'refresh of nothing': { method: 'POST', path: `${missing}/refresh`, status: 404, code: 'SESSION_NOT_FOUND' },
  'release of nothing': { method: 'DELETE', path: missing, status: 404, code: 'SESSION_NOT_FOUND' },
  'read of nothing': { method: 'GET', path: missing, status: 404, code: 'BINDING_NOT_FOUND' },
  'an id of 10 kB': { method: 'GET', path: `${sessions}/${'x'.repeat(10_000)}`, status: 404, code: 'BINDING_NOT_FOUND' },
  'an id with NUL': { method: 'DELETE', path: `${sessions}/a%00b`, status: 404, code: 'SESSION_NOT_FOUND' },
  'a limit out of range': { method: 'GET', path: `${sessions}?limit=0`, status: 400, code: 'INVALID_REQUEST' },
  'an unknown state': { method: 'GET', path: `${sessions}?state=asleep`, status: 400, code: 'INVALID_REQUEST' },
  'token=maybe': { method: 'GET', path: `${missing}?token=maybe`, status: 400, code: 'INVALID_REQUEST' },
  'a time that is none': { method: 'GET', path: '/v1/audit?since=yesterday', status: 400, code: 'INVALID_REQUEST' },
  'relay by an unknown word': {
    method: 'POST',
    path: sessions,
    body: '{"thread_id":"r","mode":"ensure","relay":"sometimes"}',
    headers: json,
    status: 400,
    code: 'INVALID_REQUEST',
  },
  'unknown key': { method: 'DELETE', path: '/v1/keys/key_none', status: 404, code: 'NOT_FOUND' },
}

describe('[4-160..4-163] every refusal is the envelope', () => {
  test.each(Object.entries(cases))('%s', async (_, { method, path, body, headers = {}, anonymous, status, code }) => {
    const response = await fetch(broker.url + path, {
      method,
      ...(body === undefined ? {} : { body: Buffer.from(body) }),
      headers: { ...(anonymous ? {} : { authorization: `Bearer ${broker.key}` }), ...headers },
    })
    const envelope = ErrorEnvelope.parse(await response.json())
    expect([response.status, envelope.error.code]).toEqual([status, code])
    expect(envelope.error.retryable).toBe([423, 429, 503].includes(status))
    expect(envelope.error.message.length).toBeGreaterThan(5)
    expect(envelope.detail).toBe(envelope.error.message)
    expect(envelope.error.request_id).toMatch(/^req_[0-9a-f-]{36}$/)
    expect(response.headers.get('x-request-id')).toBe(envelope.error.request_id)
    expect(response.headers.get('www-authenticate')).toBe(status === 401 ? 'Bearer' : null)
    if (status === 405) expect(response.headers.get('allow')).toMatch(/GET|POST|DELETE/)
  })

  test('there are at least 30 of them', () => expect(Object.keys(cases).length).toBeGreaterThanOrEqual(30))
})

describe('[C-80] what is tolerated', () => {
  const call = (path: string, init: RequestInit = {}) =>
    fetch(broker.url + path, { ...init, headers: { authorization: `Bearer ${broker.key}`, ...(init.headers as Record<string, string>) } })

  test('a missing content type on an empty or {} body', async () => {
    const refresh = `${sessions}/${session.session_id}/refresh`
    expect((await call(refresh, { method: 'POST' })).status).toBe(200)
    expect((await call(refresh, { method: 'POST', body: Buffer.from('{}') })).status).toBe(200)
    expect((await call(refresh, { method: 'POST', body: Buffer.from('{"a":1}') })).status).toBe(415)
    expect(
      (await call(refresh, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json; charset=utf-8' } })).status,
    ).toBe(200)
  })

  test('one trailing slash', async () => {
    expect((await call(`${sessions}/`)).status).toBe(200)
    expect((await call(`${sessions}/${session.session_id}/`)).status).toBe(200)
    expect((await call(`${sessions}//`)).status).toBe(404)
  })

  test('HEAD where GET works, without a body', async () => {
    const response = await call(`${sessions}/${session.session_id}`, { method: 'HEAD' })
    expect([response.status, await response.text()]).toEqual([200, ''])
    expect((await call(`${sessions}/${session.session_id}/refresh`, { method: 'HEAD' })).status).toBe(405)
  })

  test('a body without a length that grows too large: 413, and the broker goes on', async () => {
    const body = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 20; i++) controller.enqueue(new Uint8Array(8192).fill(32))
        controller.close()
      },
    })
    const init = { method: 'POST', body, duplex: 'half', headers: { 'content-type': 'application/json' } } as RequestInit
    expect((await call(sessions, init)).status).toBe(413)
    expect((await call('/healthz')).status).toBe(200)
  })
})

describe('a refusal of a request whose body is still to come', () => {
  /** What the broker says to a request with the head of a body of 200,000 bytes, which sends the rest when it has the response. */
  const send = async (path: string) => {
    const { hostname, port } = new URL(broker.url)
    const socket = connect({ host: hostname, port: Number(port) })
    const head = [`POST ${path} HTTP/1.1`, `host: ${hostname}`, `authorization: Bearer ${broker.key}`, 'content-type: application/json']
    socket.write([...head, 'content-length: 200000', '', '{'].join('\r\n'))
    const pieces: Buffer[] = []
    const answered = Promise.withResolvers<void>()
    const closed = once(socket, 'close')
    socket.on('data', (piece: Buffer) => {
      pieces.push(piece)
      if (Buffer.concat(pieces).includes('"}')) answered.resolve()
    })
    await Promise.race([answered.promise, closed])
    socket.write(Buffer.alloc(199_999, 32))
    await closed
    return Buffer.concat(pieces).toString()
  }

  test('says that the connection ends, and is read by a client that sends everything first', async () => {
    const response = await send(sessions)
    expect(response).toMatch(/^HTTP\/1\.1 413 /)
    expect(response).toMatch(/\r\nconnection: close\r\n/i)
    expect(response.slice(response.indexOf('\r\n\r\n') + 4)).toContain('PAYLOAD_TOO_LARGE')
  })

  test.each([
    ['Bearer none', 401],
    [undefined, 400],
  ])('one that has come whole leaves the connection open: %s, %i', async (authorization, status) => {
    const headers = { ...json, authorization: authorization ?? `Bearer ${broker.key}` }
    const response = await fetch(broker.url + sessions, { method: 'POST', body: '{"thread_id":', headers })
    await response.text()
    expect([response.status, response.headers.get('connection')]).toEqual([status, 'keep-alive'])
  })
})

describe('[4-163] request ids', () => {
  test.each([
    ['req_test1', true],
    ['a.B-c_9', true],
    ['x'.repeat(128), true],
    ['x'.repeat(129), false],
    ['has space', false],
    ['<script>', false],
  ])('%s is kept: %s', async (id, kept) => {
    const response = await fetch(`${broker.url}/healthz`, { headers: { 'x-request-id': id } })
    expect(response.headers.get('x-request-id') === id).toBe(kept)
  })

  test.each([
    ['POST', '/compat/sbs/sessions'],
    ['DELETE', '/compat/sbs/sessions/none'],
    ['GET', '/compat/sbs/openapi.json'],
    ['PUT', '/compat/sbs/sessions'],
    ['GET', '/compat/sbs/nothing'],
    ['GET', '/compat/box/v1/health'],
    ['POST', '/compat/box/v1/sessions/a/exec'],
    ['GET', '/compat/box/nothing'],
    ['GET', '/api/v1/box/status'],
  ])('%s %s: every answer has one, the given or a new one, also where errors are another system’s', async (method, path) => {
    for (const authorization of [`Bearer ${broker.key}`, 'Bearer none']) {
      const given = await fetch(broker.url + path, { method, headers: { authorization, 'x-request-id': 'given' } })
      expect(given.headers.get('x-request-id')).toBe('given')
      const none = await fetch(broker.url + path, { method, headers: { authorization } })
      expect(none.headers.get('x-request-id')).toMatch(/^req_[\da-f-]{36}$/)
    }
  })

  test('the audit log of a surface has the id of its answer', async () => {
    const response = await fetch(`${broker.url}/compat/sbs/sessions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${broker.key}` },
    })
    const { session_id } = (await response.json()) as { session_id: string }
    const { body } = await broker.get<{ entries: { event: string; request_id: string }[] }>(`/v1/audit?thread_id=sbs%2F${session_id}`)
    const acquired = body.entries.filter(({ event }) => event === 'sandbox.session.acquire')
    expect(acquired.map(({ request_id }) => request_id)).toEqual([response.headers.get('x-request-id')])
  })
})

describe('[C-71] surfaces in their own words', () => {
  test.each([
    ['compat/sbs', 'POST', '/compat/sbs/sessions', { detail: expect.stringContaining('send Authorization') }],
    ['compat/box', 'GET', '/compat/box/v1/sessions', { error: { code: 'unauthorized', message: expect.any(String) } }],
    [
      'mcp',
      'POST',
      '/v1/mcp/servers/none/mcp',
      expect.objectContaining({ error: expect.objectContaining({ code: 'UNAUTHENTICATED', request_id: 'words' }) }),
    ],
  ])('%s: a refusal has its own body, the headers of all others, and is counted', async (route, method, path, body) => {
    const response = await fetch(broker.url + path, { method, headers: { 'x-request-id': 'words' } })
    expect(response.status).toBe(401)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/json',
      'x-request-id': 'words',
      'cache-control': 'no-store',
      'www-authenticate': 'Bearer',
    })
    expect(await response.json()).toEqual(body)
    const metrics = await (await fetch(`${broker.url}/metrics`)).text()
    expect(metrics).toMatch(
      new RegExp(`boxoffice_broker_request_seconds_count\\{method="${method}",route="${route}",status="401"\\} [1-9]`),
    )
  })
})

/** Sends bytes as they are and gives all that comes back. */
const raw = (bytes: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(broker.url).port), '127.0.0.1')
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('end', () => resolve(text)).on('error', reject)
    socket.write(bytes)
  })

test.each([
  ['no HTTP', 'hello\r\n\r\n'],
  ['headers of 20 kB', `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`],
  ['two lengths', 'POST /v1/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
])('[4-160] %s: the envelope, too', async (_, bytes) => {
  const answer = await raw(bytes)
  expect(answer).toMatch(/^HTTP\/1.1 400 /)
  expect(ErrorEnvelope.parse(JSON.parse(answer.slice(answer.indexOf('{')))).error.code).toBe('INVALID_REQUEST')
})

test.each(['//', '//[/', '//x:y'])('[4-160] an upgrade to %s, which makes no URL: 404, and the broker goes on', async (path) => {
  const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
  expect(answer).toMatch(/^HTTP\/1.1 404 /)
  expect(ErrorEnvelope.parse(JSON.parse(answer.slice(answer.indexOf('{')))).error.code).toBe('NOT_FOUND')
})

test('[2-95] an MCP server whose name cannot be decoded: 404', async () => {
  const headers = { authorization: `Bearer ${session.token}` }
  const response = await fetch(`${broker.url}/v1/mcp/servers/%zz/mcp`, { method: 'POST', headers, body: '{}' })
  expect([response.status, ErrorEnvelope.parse(await response.json()).error.code]).toEqual([404, 'NOT_FOUND'])
})

test('[C-80] a compressed body is refused by the header that says so', async () => {
  const { body } = await broker.refused({ thread_id: 't', mode: 'get' }, { 'content-encoding': 'br' })
  expect(body.error.message).toMatch(/^Content-Encoding must be identity, not br/)
})

test('[C-43] a forged Host changes nothing', async () => {
  const body = '{"thread_id":"t","mode":"get"}'
  const answer = await raw(
    `POST ${sessions} HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer ${broker.key}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  )
  expect(answer).toMatch(/^HTTP\/1.1 200/)
  expect(answer).toContain(session.sandbox.http_base_url)
  expect(answer).not.toContain('evil')
})
