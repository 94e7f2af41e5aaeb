import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { type NegotiateResponse, SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startCapture } from '../support/capture-dataplane.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let plane: Awaited<ReturnType<typeof startCapture>>
let grant: NegotiateResponse
const open: WebSocket[] = []

beforeAll(async () => {
  broker = await startTestBroker()
  plane = await startCapture()
  await (await broker.startAgent()).register({ dataplane_url: plane.url })
  grant = await broker.ensure('thread', { relay: 'always' })
})
afterAll(async () => {
  await broker.stop()
  await plane.close()
})
afterEach(() => {
  plane.answers.refusal = undefined
  plane.answers.silent = false
  plane.sockets.length = 0
  for (const ws of open.splice(0)) ws.terminate()
})

type Options = { token?: string | null; protocols?: string[]; headers?: Record<string, string>; route?: string; base?: string }

/** A client, and what it hears. */
const connect = ({
  token = grant.token,
  protocols = [],
  headers = {},
  route = '/exec/ws',
  base = grant.sandbox.ws_base_url,
}: Options = {}) => {
  const ws = new WebSocket(base + route, protocols, {
    headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...headers },
  })
  open.push(ws)
  const heard: (string | Buffer)[] = []
  ws.on('message', (data: Buffer, isBinary) => heard.push(isBinary ? data : data.toString()))
  ws.on('error', () => {})
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    ws.on('close', (code, reason) => resolve({ code, reason: String(reason) }))
  })
  const refused = once(ws, 'unexpected-response').then(async ([, response]) => {
    let text = ''
    for await (const chunk of response as IncomingMessage) text += String(chunk)
    return { status: (response as IncomingMessage).statusCode, headers: (response as IncomingMessage).headers, body: JSON.parse(text) }
  })
  refused.catch(() => {})
  return { ws, heard, closed, refused, message: () => once(ws, 'message') }
}

/** A client and its counterpart at the agent, both open. */
const pair = async (options: Options = {}) => {
  const opened = plane.opened()
  const client = connect(options)
  await opened
  if (client.ws.readyState === WebSocket.CONNECTING) await once(client.ws, 'open')
  const agent = plane.sockets.at(-1)
  if (agent === undefined) throw new Error('no socket')
  return { client, agent }
}

const errorOf = (text: string | Buffer | undefined) => (JSON.parse(String(text)) as { error: { code: string; message: string } }).error

describe('[4-151] tokens of a socket', () => {
  test.each([
    ['Authorization', {}],
    ['X-Api-Key', { token: null, headers: (token: string) => ({ 'x-api-key': token }) }],
    ['a subprotocol', { token: null, protocols: (token: string) => ['boxoffice.v1.binary', `bearer.${token}`] }],
  ] as const)('by %s: exchanged, never passed on', async (_name, how) => {
    const { client, agent } = await pair({
      ...('token' in how ? { token: null } : {}),
      ...('headers' in how ? { headers: how.headers(grant.token) } : {}),
      protocols: 'protocols' in how ? how.protocols(grant.token) : ['boxoffice.v1.binary'],
    })
    expect(client.ws.protocol).toBe('boxoffice.v1.binary')
    expect(agent.url).toBe(`/sandboxes/${grant.sandbox.id}/v1/exec/ws`)
    expect(agent.headers['sec-websocket-protocol']).toBe('boxoffice.v1.binary')
    expect(agent.headers.authorization).toMatch(/^Bearer ey/)
    expect(JSON.stringify(agent.headers)).not.toContain(grant.token)
  })

  test('by a first frame: the agent is asked only then, with the token in the header', async () => {
    const opened = plane.opened()
    const client = connect({ token: null, protocols: ['boxoffice.v1'] })
    await once(client.ws, 'open')
    client.ws.send('{"type":"ping","id":1}')
    expect(String((await client.message())[0])).toBe('{"type":"pong","id":1}')
    expect(plane.sockets).toEqual([])
    client.ws.send(JSON.stringify({ type: 'auth', token: grant.token }))
    client.ws.send('{"type":"start","command":"true"}')
    await opened
    const [agent] = plane.sockets
    expect(JSON.stringify(agent?.headers)).not.toContain(grant.token)
    agent?.ws.send('{"type":"auth_ok"}')
    expect(String((await client.message())[0])).toBe('{"type":"auth_ok"}')
    await expect.poll(() => agent?.messages).toEqual(['{"type":"start","command":"true"}'])
  })

  test('by later frames: exchanged in their place among the others, however they are written', async () => {
    const { client, agent } = await pair()
    const fresh = (await broker.refresh(grant.session_id)).body.token
    client.ws.send('{"type":"stdin","data":"before"}')
    client.ws.send(`{"token":"${fresh}","type":"\\u0061uth"}`)
    client.ws.send('{"type":"stdin","data":"after"}')
    await expect.poll(() => agent.messages.length).toBe(3)
    expect([agent.messages[0], agent.messages[2]]).toEqual(['{"type":"stdin","data":"before"}', '{"type":"stdin","data":"after"}'])
    const renewal = JSON.parse(agent.messages[1] ?? '') as { type: string; token: string }
    expect(renewal.type).toBe('auth')
    expect(renewal.token).not.toBe(fresh)
    expect(JSON.stringify([agent.headers, agent.messages])).not.toContain(fresh)
    expect(JSON.stringify(client.heard)).not.toContain(renewal.token)
  })

  test.each([
    ['another session', async () => (await broker.ensure('other')).token, 'UNAUTHENTICATED', 4401],
    ['nobody', async () => 'nonsense', 'UNAUTHENTICATED', 4401],
  ])('a later frame with the token of %s ends the socket', async (_name, tokenOf, code, closeCode) => {
    const { client, agent } = await pair()
    client.ws.send(JSON.stringify({ type: 'auth', token: await tokenOf() }))
    expect((await client.closed).code).toBe(closeCode)
    expect(errorOf(client.heard[0]).code).toBe(code)
    expect(agent.messages).toEqual([])
  })

  test('a released session refuses the upgrade, and a first frame with 4410', async () => {
    const ended = await broker.ensure('ended', { relay: 'always' })
    await broker.release(ended.session_id)
    expect(await connect({ base: ended.sandbox.ws_base_url, token: ended.token }).refused).toMatchObject({
      status: 401,
      body: { error: { code: 'SESSION_RELEASED' } },
    })
    const client = connect({ base: ended.sandbox.ws_base_url, token: null })
    await once(client.ws, 'open')
    client.ws.send(JSON.stringify({ type: 'auth', token: ended.token }))
    expect((await client.closed).code).toBe(4410)
    expect(errorOf(client.heard[0]).code).toBe('SESSION_RELEASED')
  })
})

describe('[4-152] what crosses', () => {
  test('text and binary, both ways, in their order and as they are', async () => {
    const { client, agent } = await pair({ protocols: ['boxoffice.v1.binary'] })
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i & 0xff))
    client.ws.send('ä "not json')
    client.ws.send(bytes)
    await expect.poll(() => agent.messages.length).toBe(2)
    expect(agent.messages[0]).toBe('ä "not json')
    agent.ws.send('{"type":"ready"}')
    agent.ws.send(bytes)
    agent.ws.send('')
    await expect.poll(() => client.heard.length).toBe(3)
    expect(client.heard[0]).toBe('{"type":"ready"}')
    expect(bytes.equals(client.heard[1] as Buffer)).toBe(true)
    expect(client.heard[2]).toBe('')
  })

  test('pings are answered on both sides', async () => {
    const { client, agent } = await pair()
    client.ws.ping('c')
    agent.ws.ping('a')
    expect((await Promise.all([once(client.ws, 'pong'), once(agent.ws, 'pong')])).map(([data]) => String(data))).toEqual(['c', 'a'])
  })

  test.each([
    [1000, ''],
    [1001, 'restart'],
    [4408, 'TIMEOUT'],
    [4410, 'SESSION_RELEASED'],
  ])("the agent's close %i %s", async (code, reason) => {
    const { client, agent } = await pair()
    agent.ws.send('{"type":"exit"}')
    agent.ws.close(code, reason)
    expect(await client.closed).toEqual({ code, reason })
    expect(client.heard).toEqual(['{"type":"exit"}'])
  })

  test.each([
    [1000, 'done'],
    [4000, 'dropped'],
  ])("the client's close %i %s", async (code, reason) => {
    const { client, agent } = await pair()
    const closed = once(agent.ws, 'close')
    client.ws.close(code, reason)
    expect((await closed).map(String)).toEqual([String(code), reason])
    expect((await client.closed).code).toBe(code)
  })

  test('a client that is gone without a word is gone at the agent too', async () => {
    const { client, agent } = await pair()
    const closed = once(agent.ws, 'close')
    client.ws.terminate()
    expect((await closed)[0]).toBe(1006)
  })

  test('an agent that is gone in the middle of a frame: error BACKEND_UNAVAILABLE, 4503, and no broken frame', async () => {
    const { client, agent } = await pair()
    agent.ws.send('{"type":"ready"}')
    const { _socket: socket } = agent.ws as unknown as { _socket: import('node:net').Socket }
    // The head of a frame of 1000 bytes, and not all of them.
    socket.write(Buffer.concat([Buffer.of(0x82, 126, 3, 232), Buffer.alloc(500)]), () => socket.resetAndDestroy())
    expect((await client.closed).code).toBe(4503)
    expect(client.heard[0]).toBe('{"type":"ready"}')
    expect(errorOf(client.heard[1])).toMatchObject({ code: 'BACKEND_UNAVAILABLE', retryable: true })
    expect(client.heard).toHaveLength(2)
  })

  test('[2-43, 2-65] an agent that is gone from under the lines of a process: none is added, only those with control frames are told why', async () => {
    for (const protocol of [SUBPROTOCOL_LINES, 'mcp']) {
      const { client, agent } = await pair({ route: '/processes/p/ws', protocols: [protocol] })
      agent.ws.send('one')
      await client.message()
      plane.cut()
      expect(await client.closed).toEqual({ code: 4503, reason: 'BACKEND_UNAVAILABLE' })
      const [line, ...frames] = client.heard
      expect([line, frames.every((heard) => Buffer.isBuffer(heard))]).toEqual(['one', true])
      expect(frames.map((frame) => errorOf(frame).code)).toEqual(protocol === SUBPROTOCOL_LINES ? ['BACKEND_UNAVAILABLE'] : [])
    }
  })

  test("the agent's refusals are the client's: before the upgrade, or as error and close", async () => {
    const error = { code: 'SANDBOX_STARTING', message: 'wait', retryable: true, request_id: 'req_agent', details: { state: 'frozen' } }
    plane.answers.refusal = { status: 423, body: { error, detail: 'wait' }, headers: { 'retry-after': '7' } }
    const { status, headers, body } = await connect().refused
    expect([status, headers['retry-after'], body.error]).toMatchObject([
      423,
      '7',
      { code: 'SANDBOX_STARTING', details: { state: 'frozen' } },
    ])
    const client = connect({ token: null })
    await once(client.ws, 'open')
    client.ws.send(JSON.stringify({ type: 'auth', token: grant.token }))
    expect((await client.closed).code).toBe(4423)
    expect(errorOf(client.heard[0])).toMatchObject({ code: 'SANDBOX_STARTING', message: 'wait' })
  })

  test('[C-38] an agent that is silent for 15 s: 503 before the upgrade, or 4503; the 5 s for auth end with its frame', async () => {
    plane.answers.silent = true
    const early = connect()
    const late = connect({ token: null })
    await once(late.ws, 'open')
    late.ws.send(JSON.stringify({ type: 'auth', token: grant.token }))
    const [{ status, body }, { code }] = await Promise.all([early.refused, late.closed])
    const error = { code: 'BACKEND_UNAVAILABLE', retryable: true, details: { reason: 'agent_silent' } }
    expect([status, code]).toEqual([503, 4503])
    expect([body.error, errorOf(late.heard[0])]).toMatchObject([error, error])
    await expect.poll(() => plane.connections()).toBe(0)
  }, 180_000)

  test('no agent: 503 before the upgrade', async () => {
    const away = await startTestBroker()
    try {
      await (await away.startAgent()).register({ dataplane_url: 'http://127.0.0.1:1' })
      const { sandbox, token } = await away.ensure('t', { relay: 'always' })
      expect(await connect({ base: sandbox.ws_base_url, token }).refused).toMatchObject({
        status: 503,
        body: { error: { code: 'BACKEND_UNAVAILABLE', retryable: true } },
      })
    } finally {
      await away.stop()
    }
  })
})

describe('[3.11, C-69] what is refused', () => {
  test.each([
    ['X-Sandbox-Id', 400],
    ['X-Rewrite-URL', 400],
  ])('%s', async (name, status) => {
    expect((await connect({ headers: { [name]: 'x' } }).refused).status).toBe(status)
  })

  test('a foreign origin; the same one is not', async () => {
    expect((await connect({ headers: { origin: 'https://evil.example' } }).refused).status).toBe(403)
    const { agent } = await pair({ headers: { origin: broker.url } })
    expect(agent.headers).not.toHaveProperty('origin')
  })

  test('an unknown route without a token, and one with it', async () => {
    expect((await connect({ token: null, route: '/nothing/ws' }).refused).status).toBe(404)
    expect((await connect({ route: '/exec' }).refused).status).toBe(404)
  })

  test.each(['/v1', ''])(
    '[7.4] `execute/ws` behind "%s" is the agent’s; the relay tells its own errors in the same frames',
    async (version) => {
      const base = grant.sandbox.ws_base_url.replace(/\/v1$/, version)
      const { client, agent } = await pair({ base, route: '/execute/ws' })
      expect(agent.url).toBe(`/sandboxes/${grant.sandbox.id}/v1/execute/ws`)
      client.ws.send('{"type":"execute","command":"true"}')
      await expect.poll(() => agent.messages).toEqual(['{"type":"execute","command":"true"}'])
      client.ws.send('{"type":"auth","token":"bad"}')
      expect((await client.closed).code).toBe(4401)
      expect(JSON.parse(String(client.heard.at(-1)))).toMatchObject({ type: 'error', error_type: 'SessionExpired' })
    },
  )

  test.each([null, 'bad'])('[7.4] `execute/ws` with the token %s: a frame, then 4401; the agent is not asked', async (token) => {
    const client = connect({ token, route: '/execute/ws' })
    expect((await client.closed).code).toBe(4401)
    expect(client.heard.map((text) => JSON.parse(String(text)))).toMatchObject([{ type: 'error', error_type: 'SessionExpired' }])
    expect(plane.sockets).toEqual([])
  })

  test('a socket elsewhere at the broker', async () => {
    expect((await connect({ base: broker.url.replace('http', 'ws'), route: '/v1/sandbox/sessions' }).refused).status).toBe(404)
  })

  test('another protocol that a client offers with its request is ignored', async () => {
    const request = httpRequest(`${broker.url}/healthz`, {
      headers: { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'x' },
    })
    request.end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.resume()
    expect(response.statusCode).toBe(200)
  })
})

test('a broker that goes down says so: 1001, and the agent sees its client leave', async () => {
  const own = await startTestBroker()
  let stopped = false
  try {
    await (await own.startAgent()).register({ dataplane_url: plane.url })
    const { sandbox, token } = await own.ensure('t', { relay: 'always' })
    const { client, agent } = await pair({ base: sandbox.ws_base_url, token })
    const left = once(agent.ws, 'close')
    stopped = true
    await own.stop()
    expect((await client.closed).code).toBe(1001)
    expect((await left)[0]).toBe(1001)
  } finally {
    if (!stopped) await own.stop()
  }
})
