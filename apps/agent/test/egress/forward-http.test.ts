import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { dialTcp } from '../../src/egress/address/dial-addresses.ts'
import type { EgressDecision, RequestGate } from '../../src/egress/egress-types.ts'
import { forwardHttp } from '../../src/egress/http/forward-http.ts'
import { normalPath } from '../../src/egress/http/normal-path.ts'
import { listening, tcp } from '../support/listening.ts'

const HOST = 'origin.example'
const OPEN: RequestGate = () => ({ allowed: true, headers: [] })

/** Forwards what a client writes to an origin on a port. */
const startForwarder = async (port: number, gate: RequestGate = OPEN) => {
  const decisions: EgressDecision[] = []
  const front = await tcp((connection) => {
    const dial = () => dialTcp({ address: '127.0.0.1', port }, AbortSignal.timeout(10_000))
    forwardHttp({ connection, scheme: 'http', host: HOST, port: 80, gate, dial, onDecision: (decision) => void decisions.push(decision) })
  })
  const ask = async (request: string): Promise<string> => {
    const client = connect(front.port, '127.0.0.1').on('error', () => {})
    client.write(request)
    return text(client)
  }
  return { decisions, ask, [Symbol.asyncDispose]: () => front[Symbol.asyncDispose]() }
}

const echo = () =>
  listening(
    createServer(async (request: IncomingMessage, response) => {
      response.end(`${request.method} ${request.url} [${await text(request)}] ${JSON.stringify(request.headersDistinct['x-key'] ?? [])}`)
    }),
  )

test.each(['GET', 'DELETE', 'POST'])('the body of a %s in chunks stays its body', async (method) => {
  await using origin = await echo()
  await using forwarder = await startForwarder(origin.port)
  const body = 'GET /smuggled HTTP/1.1\r\nHost: origin.example\r\n\r\n'
  const chunk = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  const response = await forwarder.ask(
    `${method} /a HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`,
  )
  expect(response).toContain(`${method} /a [${body}]`)
  expect(forwarder.decisions.map(({ path }) => path)).toEqual(['/a'])
})

test.each(['GET', 'DELETE', 'POST'])('the body of a %s keeps its length, whatever Connection names', async (method) => {
  await using origin = await echo()
  await using forwarder = await startForwarder(origin.port)
  const body = 'GET /smuggled HTTP/1.1\r\nHost: origin.example\r\n\r\n'
  const head = `Host: ${HOST}\r\nConnection: close, Content-Length, host\r\nContent-Length: ${body.length}\r\n\r\n`
  const response = await forwarder.ask(`${method} /a HTTP/1.1\r\n${head}${body}`)
  expect(response).toContain(`${method} /a [${body}]`)
  expect(forwarder.decisions.map(({ path }) => path)).toEqual(['/a'])
})

test.each([
  ['WebSocket with a length', 'Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nGET /'],
  ['WebSocket with chunks', 'Connection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
])('an upgrade to %s is refused and reaches no origin', async (_, rest) => {
  const reached: string[] = []
  await using origin = await tcp((socket: Socket) => {
    socket.on('data', (bytes) => {
      reached.push(bytes.toString('latin1'))
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n')
    })
  })
  await using forwarder = await startForwarder(origin.port)
  const response = await forwarder.ask(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n${rest}`)
  expect(response).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
  expect(reached).toEqual([])
  expect(forwarder.decisions).toMatchObject([{ allowed: false, code: 'bad_request', path: '/' }])
})

test.each([
  ['h2c', 'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AA'],
  ['WebSocket and h2c', 'Connection: Upgrade, close\r\nUpgrade: websocket, h2c'],
])('an offer of %s is left out, and the request is one of HTTP/1.1', async (_, offer) => {
  const seen: string[] = []
  await using origin = await listening(
    createServer((request, response) => {
      seen.push(...request.rawHeaders.map((text) => text.toLowerCase()))
      response.end(`${request.method} ${request.url}`)
    }),
  )
  await using forwarder = await startForwarder(origin.port)
  const response = await forwarder.ask(`GET /a HTTP/1.1\r\nHost: ${HOST}\r\n${offer}\r\n\r\nGET /b HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)
  expect(response).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  expect(response).toContain('GET /a')
  expect(seen).not.toContain('upgrade')
  expect(seen).not.toContain('http2-settings')
  expect(forwarder.decisions.map(({ path }) => path)).toEqual(['/a'])
})

test("the client's own copies of a header that is set are removed", async () => {
  await using origin = await echo()
  await using forwarder = await startForwarder(origin.port, () => ({ allowed: true, headers: [['x-key', 'ours']] }))
  const response = await forwarder.ask(`GET / HTTP/1.1\r\nHost: ${HOST}\r\nX-KEY: one\r\nx-key: two\r\nConnection: close, x-key\r\n\r\n`)
  expect(response).toContain('GET / [] ["ours"]')
})

test('[benchflow#1122] each request of a connection is held to the gate and to its host', async () => {
  await using origin = await echo()
  const gate: RequestGate = ({ path }) =>
    path === '/a' ? { allowed: true, headers: [] } : { allowed: false, denial: { code: 'path_not_allowed', host: HOST, hint: 'no' } }
  await using forwarder = await startForwarder(origin.port, gate)
  const two = await forwarder.ask(`GET /a HTTP/1.1\r\nHost: ${HOST}\r\n\r\nGET /b HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)
  expect(two).toContain('GET /a []')
  expect(two).toContain('HTTP/1.1 403 Forbidden')
  const other = await forwarder.ask(`GET /a HTTP/1.1\r\nHost: ${HOST}\r\n\r\nGET /a HTTP/1.1\r\nHost: other.example\r\n\r\n`)
  expect(other).toContain('HTTP/1.1 421 Misdirected Request')
})

test('the reason of an origin is not passed on', async () => {
  const answer = 'HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n'
  await using origin = await tcp((socket: Socket) => void socket.once('data', () => socket.write(Buffer.from(answer, 'latin1'))))
  await using forwarder = await startForwarder(origin.port)
  const response = await forwarder.ask(`GET / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`)
  expect(response).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
})

test.each([
  ['a status below 100', 'HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n'],
  ['another protocol unasked', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\n'],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n'],
  ['no HTTP', 'hello\r\n\r\n'],
  ['nothing', ''],
])('an origin that answers with %s is a 502', async (_, answer) => {
  await using origin = await tcp((socket: Socket) => {
    socket.once('data', () => (answer === '' ? socket.destroy() : socket.write(Buffer.from(answer, 'latin1'))))
  })
  await using forwarder = await startForwarder(origin.port)
  const response = await forwarder.ask(`GET / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`)
  expect(response).toMatch(/^HTTP\/1\.1 502 Bad Gateway\r\n/)
  expect(forwarder.decisions.at(-1)).toMatchObject({ allowed: false, code: 'unreachable' })
})

test('a client that goes away ends its request at the origin', async () => {
  const gone = Promise.withResolvers<void>()
  const began = Promise.withResolvers<void>()
  await using origin = await listening(
    createServer((request, response) => {
      response.writeHead(200).write('first')
      request.on('close', () => gone.resolve())
      began.resolve()
    }),
  )
  await using front = await tcp((connection) => {
    const dial = () => dialTcp({ address: '127.0.0.1', port: origin.port }, AbortSignal.timeout(10_000))
    forwardHttp({ connection, scheme: 'http', host: HOST, port: 80, gate: OPEN, dial, onDecision: () => {} })
  })
  const client = connect(front.port, '127.0.0.1')
  client.write(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)
  await began.promise
  await once(client, 'readable')
  client.destroy()
  await gone.promise
})

test.each([
  ['/', '/'],
  ['/a/b?c=/../d', '/a/b?c=/../d'],
  ['/a/./b/../c', '/a/c'],
  ['/a/..', '/'],
  ['/../../a', '/a'],
  ['/a/.', '/a/'],
  ['/%41%20', '/%41%20'],
  ['/100%25', '/100%25'],
  ['', undefined],
  ['a', undefined],
  ['//a', undefined],
  ['/a%2fb', undefined],
  ['/a%2Fb', undefined],
  ['/%2e%2e/a', undefined],
  ['/a%5cb', undefined],
  ['/a\\b', undefined],
  ['/a%00', undefined],
  ['/a%zz', undefined],
  ['/a b', undefined],
  ['/a#b', undefined],
  ['/ä', undefined],
])('the path %j is %j', (given, path) => expect(normalPath(given)).toBe(path))
