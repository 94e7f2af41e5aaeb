import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import type { ErrorEnvelope, NegotiateResponse } from '@boxoffice/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startCapture } from '../support/capture-dataplane.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let plane: Awaited<ReturnType<typeof startCapture>>
let agent: Awaited<ReturnType<TestBroker['startAgent']>>
let grant: NegotiateResponse

beforeAll(async () => {
  broker = await startTestBroker()
  plane = await startCapture()
  agent = await broker.startAgent()
  await agent.register({ dataplane_url: `${plane.url}/behind` })
  grant = await broker.ensure('thread', { relay: 'always' })
})
afterAll(async () => {
  await broker.stop()
  await plane.close()
})
afterEach(() => {
  plane.requests.length = 0
  plane.answers.raw = undefined
  plane.answers.http = (_request, response) => void response.end('{}')
})

const path = (rest: string, id = grant.session_id) => `/v1/sandbox/relay/${id}${rest}`

/** Sends a path as it stands, which `fetch` would not. */
const send = async (
  target: string,
  {
    token = grant.token,
    method = 'GET',
    headers = {},
    body,
  }: { token?: string; method?: string; headers?: Record<string, string>; body?: string } = {},
) => {
  const request = httpRequest(broker.url, { method, path: target, headers: { authorization: `Bearer ${token}`, ...headers } })
  request.end(body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return { status: response.statusCode, headers: response.headers, text, json: () => JSON.parse(text) as ErrorEnvelope }
}
const outcome = async (target: string, options?: Parameters<typeof send>[1]) => {
  const { status, text, json } = await send(target, options)
  return [status, text.startsWith('{"error"') ? json().error.code : text]
}

describe('[4-151] credentials', () => {
  test("the client's token does not reach the agent, the broker's does not reach the client", async () => {
    plane.answers.http = (_request, response) => void response.writeHead(200, { 'set-cookie': 'a=b' }).end('{"ok":true}')
    const { status, headers, text } = await send(path('/v1/exec'), {
      method: 'POST',
      headers: { 'x-api-key': grant.token, cookie: `token=${grant.token}`, 'content-type': 'application/json' },
      body: '{"command":"true"}',
    })
    expect([status, text]).toEqual([200, '{"ok":true}'])
    const [seen] = plane.requests
    expect(seen).toMatchObject({ method: 'POST', url: `/behind/sandboxes/${grant.sandbox.id}/v1/exec`, body: '{"command":"true"}' })
    expect(JSON.stringify(seen)).not.toContain(grant.token)
    expect(seen?.headers).not.toHaveProperty('x-api-key')
    expect(seen?.headers).not.toHaveProperty('cookie')
    const own = seen?.headers.authorization?.replace('Bearer ', '') ?? ''
    const claims = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as object
    expect(claims(own)).toEqual({ ...claims(grant.token), via: 'relay' })
    expect(own.split('.')[2]).not.toBe(grant.token.split('.')[2])
    expect(JSON.stringify([headers, text])).not.toContain(own)
    expect(headers).not.toHaveProperty('set-cookie')
    // Cached: the same for the same token.
    await send(path('/v1/execs'))
    expect(plane.requests[1]?.headers.authorization).toBe(`Bearer ${own}`)
  })

  test.each([
    ['none', { headers: { authorization: '' } }, 401, 'UNAUTHENTICATED'],
    ['nonsense', { token: 'x' }, 401, 'UNAUTHENTICATED'],
    ['a server credential', { token: 'key' }, 401, 'UNAUTHENTICATED'],
  ])('%s is refused and nothing is asked of the agent', async (_name, options, status, code) => {
    expect(await outcome(path('/v1/execs'), 'token' in options && options.token === 'key' ? { token: broker.key } : options)).toEqual([
      status,
      code,
    ])
    expect(plane.requests).toEqual([])
  })

  test("another session's token is refused, by the session of the path", async () => {
    const other = await broker.ensure('other', { relay: 'always' })
    expect(await outcome(path('/v1/execs', other.session_id))).toEqual([403, 'FORBIDDEN'])
    expect(await outcome(path('/v1/execs', 'ssn_none'))).toEqual([403, 'FORBIDDEN'])
    expect(plane.requests).toEqual([])
  })

  test('a token of a leaked clock is refused once it has run out', async () => {
    const timed = await startTestBroker()
    try {
      const own = await timed.startAgent()
      await own.register({ dataplane_url: plane.url })
      const { session_id, token } = await timed.ensure('t', { relay: 'always' })
      const ask = () => fetch(`${timed.url}/v1/sandbox/relay/${session_id}/v1/execs`, { headers: { authorization: `Bearer ${token}` } })
      expect((await ask()).status).toBe(200)
      await timed.advance(606_000)
      expect([(await ask()).status, ((await (await ask()).json()) as ErrorEnvelope).error.code]).toEqual([401, 'TOKEN_EXPIRED'])
    } finally {
      await timed.stop()
    }
  })
})

describe('[2.5] the state of the session', () => {
  test('released: 401 SESSION_RELEASED at once', async () => {
    const { session_id, token } = await broker.ensure('released', { relay: 'always' })
    expect(await outcome(path('/v1/execs', session_id), { token })).toEqual([200, '{}'])
    await broker.release(session_id)
    const refused = await send(path('/v1/execs', session_id), { token })
    expect([refused.status, refused.json().error]).toMatchObject([401, { code: 'SESSION_RELEASED', details: { reason: 'released' } }])
  })

  test('failed: 503 SANDBOX_LOST', async () => {
    const { session_id, token, sandbox } = await broker.ensure('failed', { relay: 'always' })
    const activity = { running: 0, attached: 0, idle_ms: 0 }
    const lost = { sandbox_id: sandbox.id, session_id, state: 'lost' as const, generation: 1, profile_hash: '', activity, reason: 'oom' }
    await agent.heartbeat([lost])
    expect(await outcome(path('/v1/execs', session_id), { token })).toEqual([503, 'SANDBOX_LOST'])
  })

  test('suspended: the agent wakes it', async () => {
    const timed = await startTestBroker()
    try {
      const own = await timed.startAgent()
      await own.register({ dataplane_url: plane.url })
      const { session_id } = await timed.ensure('suspended', { relay: 'always' })
      for (const { activity } of own.sandboxes.values()) activity.idle_ms = 901_000
      await timed.advance(901_000)
      await timed.broker.reap()
      expect((await timed.read(session_id, '?token=false')).body.binding.state).toBe('suspended')
      const { token } = (await timed.refresh(session_id)).body
      const headers = { authorization: `Bearer ${token}` }
      expect((await fetch(`${timed.url}/v1/sandbox/relay/${session_id}/v1/execs`, { headers })).status).toBe(200)
    } finally {
      await timed.stop()
    }
  })

  test('an agent that is never to be relayed: 503', async () => {
    const own = await broker.startAgent()
    await own.register({ relay: 'never', dataplane_url: plane.url })
    try {
      await agent.register({ provider: { name: null, isolation: null, available: false, reason: 'away', suspend: [] } })
      const direct = await broker.ensure('direct')
      expect(await outcome(path('/v1/execs', direct.session_id), { token: direct.token })).toEqual([503, 'BACKEND_UNAVAILABLE'])
    } finally {
      await agent.register({ dataplane_url: `${plane.url}/behind` })
    }
  })
})

describe('[3.11] the target', () => {
  test.each(['X-Sandbox-Id', 'x-sandbox-anything', 'X-Original-URL', 'X-Rewrite-URL', 'E2b-Sandbox-Id', 'e2b-sandbox-port'])(
    '%s is refused with 400',
    async (name) => {
      expect(await outcome(path('/v1/execs'), { headers: { [name]: 'x' } })).toEqual([400, 'INVALID_REQUEST'])
      expect(plane.requests).toEqual([])
    },
  )

  test('what tells of hops is dropped or rebuilt; the rest passes', async () => {
    const dropped = {
      forwarded: 'for=1.2.3.4',
      'x-forwarded-for': '1.2.3.4',
      'x-forwarded-host': 'evil',
      'x-forwarded-proto': 'https',
      'x-original-host': 'evil',
      'x-rewrite-path': '/evil',
    }
    const hops = { te: 'trailers', 'proxy-authorization': 'Basic x', 'keep-alive': 'timeout=9', connection: 'close, x-mine', 'x-mine': '1' }
    const passing = { 'x-request-id': 'req_mine', range: 'bytes=0-1', 'if-none-match': '"e"', accept: 'a/b', 'x-other': 'stays' }
    await send(path('/v1/execs'), { headers: { ...dropped, ...hops, ...passing, host: 'evil.example' } })
    const { headers = {} } = plane.requests[0] ?? {}
    for (const name of [...Object.keys(dropped), 'te', 'proxy-authorization', 'x-mine']) expect(headers, name).not.toHaveProperty(name)
    expect(headers).toMatchObject(passing)
    expect(headers.host).toBe(new URL(plane.url).host)
  })

  test.each([
    ['/v1/exec/', '/v1/exec'],
    ['/v1/a/../exec', '/v1/exec'],
    ['/v1/%2e%2e/v1/exec', '/v1/exec'],
    ['/v1/./exec?path=../x&b=%2F', '/v1/exec?path=../x&b=%2F'],
    ['/v1/files/stat?path=a/../b', '/v1/files/stat?path=a/../b'],
    ['/v1/processes/a%2Fb', '/v1/processes/a%2Fb'],
    ['/execute', '/v1/execute'],
    ['/upload?path=x', '/v1/upload?path=x'],
    ['/download', '/v1/download'],
    ['/v1', '/v1/'],
  ])('%s is asked as %s', async (asked, seen) => {
    expect((await send(path(asked))).status).toBe(200)
    expect(plane.requests[0]?.url).toBe(`/behind/sandboxes/${grant.sandbox.id}${seen}`)
  })

  test('a path that names another session after all is checked as what it names', async () => {
    const other = await broker.ensure('other', { relay: 'always' })
    expect(await outcome(`${path('')}/../${other.session_id}/v1/execs`)).toEqual([403, 'FORBIDDEN'])
    expect(await outcome(path(`/..%2f${other.session_id}/v1/execs`))).toEqual([404, 'NOT_FOUND'])
    expect(await outcome(path('/../../../sessions'))).toEqual([400, 'INVALID_REQUEST'])
    expect(await outcome(path('/exec'))).toEqual([404, 'NOT_FOUND'])
    expect(await outcome(path('\\..\\..\\..\\sessions'))).toEqual([400, 'INVALID_REQUEST'])
    expect(plane.requests).toEqual([])
  })
})

describe('[4-152] bodies', () => {
  test('stream in both directions at once', async () => {
    plane.answers.raw = (incoming, outgoing) => void incoming.pipe(outgoing)
    const request = httpRequest(broker.url + path('/v1/echo'), { method: 'POST', headers: { authorization: `Bearer ${grant.token}` } })
    request.write('first')
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    expect(String((await once(response, 'data'))[0])).toBe('first')
    request.write('second')
    expect(String((await once(response, 'data'))[0])).toBe('second')
    request.end()
    await once(response, 'end')
  })

  test('HEAD has headers only; status, length and range headers pass', async () => {
    plane.answers.http = (_request, response) =>
      void response.writeHead(206, { 'content-length': 5, 'content-range': 'bytes 0-4/9', etag: '"e"' }).end('bytes')
    expect(await send(path('/v1/files/download'), { method: 'HEAD' })).toMatchObject({
      status: 206,
      text: '',
      headers: { 'content-length': '5', 'content-range': 'bytes 0-4/9', etag: '"e"' },
    })
  })

  test.each([
    ['goes on when the agent says so', true, 200],
    ['is refused before a byte of the body', false, 413],
  ])('Expect: 100-continue %s', async (_name, goesOn, status) => {
    plane.answers.raw = (incoming, outgoing) => {
      if (!goesOn) return void outgoing.writeHead(413).end('no')
      void incoming.pipe(outgoing)
    }
    const socket = connect(Number(new URL(broker.url).port), '127.0.0.1')
    const token = goesOn ? grant.token : 'bad'
    socket.write(
      `POST ${path('/v1/x')} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer ${token}\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n`,
    )
    const first = String((await once(socket, 'data'))[0])
    if (goesOn) {
      expect(first).toMatch(/^HTTP\/1\.1 100 /)
      socket.write('body')
      expect(String((await once(socket, 'data'))[0])).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    } else expect(first).toMatch(/^HTTP\/1\.1 401 /)
    socket.destroy()
  })

  test.each(['100-continue', 'the impossible'])('a client of HTTP/1.0 that sends Expect: %s: none reaches the agent', async (expected) => {
    let seen: IncomingHttpHeaders | undefined
    plane.answers.raw = (incoming, outgoing) => {
      seen = incoming.headers
      incoming.pipe(outgoing)
    }
    const socket = connect(Number(new URL(broker.url).port), '127.0.0.1')
    socket.write(
      `POST ${path('/v1/x')} HTTP/1.0\r\nHost: b\r\nAuthorization: Bearer ${grant.token}\r\nContent-Length: 4\r\nExpect: ${expected}\r\n\r\nbody`,
    )
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /)
    expect(seen).toHaveProperty('content-length', '4')
    expect(seen).not.toHaveProperty('expect')
    socket.destroy()
  })

  test('[4-152] a command whose body comes with its head reaches the agent in one piece', async () => {
    const pieces: string[] = []
    const agentSide = createTcpServer((socket) => {
      socket.on('data', (piece: Buffer) => {
        pieces.push(String(piece))
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
      })
      socket.on('error', () => {})
    })
    agentSide.listen(0, '127.0.0.1')
    await once(agentSide, 'listening')
    const own = await startTestBroker()
    const client: Socket = connect(Number(new URL(own.url).port), '127.0.0.1')
    try {
      const { port } = agentSide.address() as AddressInfo
      await (await own.startAgent()).register({ dataplane_url: `http://127.0.0.1:${port}` })
      const { session_id, token } = await own.ensure('t', { relay: 'always' })
      const head = `POST /v1/sandbox/relay/${session_id}/v1/exec HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer ${token}\r\n`
      // The connection is kept, and the second request is one piece as well.
      for (const body of ['{"argv":["a"]}', '{"argv":["b"]}']) {
        client.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`)
        expect(String((await once(client, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /)
      }
      expect(pieces.map((piece) => piece.split('\r\n\r\n')[1])).toEqual(['{"argv":["a"]}', '{"argv":["b"]}'])
    } finally {
      client.destroy()
      await own.stop()
      agentSide.close()
    }
  })

  test('a client that goes away takes its request with it', async () => {
    const gone = Promise.withResolvers<void>()
    const there = Promise.withResolvers<void>()
    plane.answers.raw = (incoming) => {
      there.resolve()
      incoming.once('close', () => gone.resolve())
    }
    const request = httpRequest(broker.url + path('/v1/exec'), { method: 'POST', headers: { authorization: `Bearer ${grant.token}` } })
    request.on('error', () => {})
    request.write('{')
    await there.promise
    request.destroy()
    await gone.promise
  })

  test('an answer that breaks off is broken off', async () => {
    plane.answers.raw = (_incoming, outgoing) => {
      outgoing.writeHead(200, { 'content-length': 100 })
      outgoing.write('half', () => outgoing.destroy())
    }
    await expect(send(path('/v1/files/download'))).rejects.toThrow()
  })

  test('an agent that breaks the connection before it answers: 503, and nothing is asked twice', async () => {
    let asked = 0
    plane.answers.raw = (_incoming, outgoing) => {
      asked++
      outgoing.destroy()
    }
    expect(await outcome(path('/v1/exec'), { method: 'POST', body: '{}', headers: { 'content-length': '2' } })).toEqual([
      503,
      'BACKEND_UNAVAILABLE',
    ])
    expect(asked).toBe(1)
  })

  test('an agent that cannot be dialled is dialled again, and then gets the whole body', async () => {
    const late = createServer(async (incoming, outgoing) => {
      let body = ''
      for await (const chunk of incoming) body += String(chunk)
      outgoing.end(body)
    })
    late.listen(0, '127.0.0.1')
    await once(late, 'listening')
    const { port } = late.address() as AddressInfo
    late.close()
    await once(late, 'close')
    const own = await startTestBroker()
    try {
      await (await own.startAgent()).register({ dataplane_url: `http://127.0.0.1:${port}` })
      const { session_id, token } = await own.ensure('t', { relay: 'always' })
      const ask = () =>
        fetch(`${own.url}/v1/sandbox/relay/${session_id}/v1/x`, {
          method: 'POST',
          body: 'whole',
          headers: { authorization: `Bearer ${token}` },
        })
      const refused = await ask()
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '2'])
      const asked = ask()
      late.listen(port, '127.0.0.1')
      expect(await (await asked).text()).toBe('whole')
    } finally {
      await own.stop()
      late.closeAllConnections()
      late.close()
    }
  })
})
