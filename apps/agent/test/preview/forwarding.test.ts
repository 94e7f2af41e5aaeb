import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { buffer, text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/listening.ts'
import { app, TestPreviews } from '../support/previews.ts'

let previews: TestPreviews
beforeAll(async () => {
  previews = await TestPreviews.start()
})
afterAll(() => previews[Symbol.asyncDispose]())

const echo = () =>
  app((incoming, outgoing) => {
    const { method, url, headers, rawHeaders } = incoming
    void text(incoming).then((body) =>
      outgoing.setHeader('content-type', 'application/json').end(JSON.stringify({ method, url, headers, rawHeaders, body })),
    )
  })

test('[sandbox-sdk#917, suna#4438] the program reads localhost as host and origin, who asks, and none of the product’s own headers and cookies', async () => {
  await using program = await echo()
  const { hostname, url } = previews.expose(program.port)
  const answer = await previews.fetch(hostname, '/a//b?c=%2F', {
    method: 'POST',
    body: 'sent',
    headers: {
      origin: url,
      cookie: `theme=dark; ${await previews.cookie(hostname)}; __host-BX_other=1; =__Host-bx_preview=x; last=1`,
      'x-boxoffice-anything': 'secret',
      'x-forwarded-for': '203.0.113.9',
      'x-forwarded-host': 'evil.example',
      forwarded: 'for=203.0.113.9',
      connection: 'close, x-only-here, content-length',
      'x-only-here': '1',
    },
  })
  expect(answer.status).toBe(200)
  const { headers, ...got } = JSON.parse(answer.body) as { headers: Record<string, string> }
  expect(got).toMatchObject({ method: 'POST', url: '/a//b?c=%2F', body: 'sent' })
  expect(headers).toMatchObject({
    host: `localhost:${program.port}`,
    origin: `http://localhost:${program.port}`,
    cookie: 'theme=dark; last=1',
    'x-forwarded-host': new URL(url).host,
    'x-forwarded-proto': 'http',
    'x-forwarded-for': '127.0.0.1',
  })
  for (const name of ['x-boxoffice-anything', 'forwarded', 'x-only-here']) expect(headers).not.toHaveProperty(name)
})

test('behind a proxy that is trusted the program reads who asked that', async () => {
  await using behind = await TestPreviews.start({ trustedProxies: ['127.0.0.1'] })
  await using program = await echo()
  const { hostname } = behind.expose(program.port, { access: 'public' })
  const { body } = await behind.fetch(hostname, '/', { headers: { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' } })
  expect((JSON.parse(body) as { headers: object }).headers).toMatchObject({ 'x-forwarded-for': '203.0.113.9' })
})

test('with host preserve the program reads the names of the preview', async () => {
  await using program = await echo()
  const { hostname, url } = previews.expose(program.port, { host: 'preserve', access: 'public' })
  const { headers } = JSON.parse((await previews.fetch(hostname, '/', { headers: { origin: url } })).body) as { headers: object }
  expect(headers).toMatchObject({ host: new URL(url).host, origin: url })
})

test('an origin that is not the preview’s stays as it is, for the program to refuse', async () => {
  await using program = await echo()
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const { headers } = JSON.parse((await previews.fetch(hostname, '/', { headers: { origin: 'https://evil.example' } })).body) as {
    headers: object
  }
  expect(headers).toMatchObject({ origin: 'https://evil.example' })
})

test('cookies of the program are of its own host, and none is named like the product’s', async () => {
  await using program = await app((_, outgoing) => {
    outgoing.setHeader('set-cookie', [
      'a=1; Domain=localhost; Path=/x',
      'b=2; domain =.localhost',
      '__Host-bx_preview=forged; Secure; Path=/',
      '=__host-bx_preview=forged',
      'c=3; HttpOnly',
    ])
    outgoing.setHeader('x-robots-tag', 'all').setHeader('x-boxoffice-told', '1').setHeader('alt-svc', 'h3=":1"')
    outgoing.end()
  })
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const { headers } = await previews.fetch(hostname)
  expect(headers['set-cookie']).toEqual(['a=1; Path=/x', 'b=2', 'c=3; HttpOnly'])
  expect(headers).toMatchObject({ 'x-robots-tag': 'noindex' })
  expect(headers).not.toHaveProperty('x-boxoffice-told')
  expect(headers).not.toHaveProperty('alt-svc')
})

test('a redirect to localhost comes to the preview; every other one is left alone', async () => {
  await using program = await app(({ url }, outgoing) => {
    outgoing.writeHead(302, { location: decodeURIComponent((url ?? '').slice(2)) }).end()
  })
  const { hostname, url } = previews.expose(program.port, { access: 'public' })
  const locationFor = async (to: string) => (await previews.fetch(hostname, `/?${encodeURIComponent(to)}`)).headers.location
  expect(await locationFor(`http://localhost:${program.port}/next?a=1#b`)).toBe(`${url}/next?a=1#b`)
  expect(await locationFor(`http://127.0.0.1:${program.port}/next`)).toBe(`${url}/next`)
  for (const other of ['/next', 'http://localhost:1/next', 'https://example.com/', `http://localhost:${program.port}@evil.example/`])
    expect(await locationFor(other)).toBe(other)
})

test('an event stream arrives piece by piece, and its end is the end of the program’s request', async () => {
  const left = Promise.withResolvers<void>()
  let more: (() => void) | undefined
  await using program = await app((_, outgoing) => {
    outgoing.writeHead(200, { 'content-type': 'text/event-stream' })
    outgoing.flushHeaders()
    more = () => void outgoing.write('data: tick\n\n')
    outgoing.on('close', left.resolve)
  })
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const sent = previews.open(hostname, '/events')
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  for (let i = 0; i < 3; i++) {
    more?.()
    expect(String((await once(response, 'data'))[0])).toBe('data: tick\n\n')
  }
  response.destroy()
  await left.promise
})

test('uploads and downloads pass byte for byte, with lengths, ranges and HEAD', async () => {
  const bytes = randomBytes(5 * 1024 * 1024)
  await using program = await app((incoming, outgoing) => {
    if (incoming.method === 'POST') return void buffer(incoming).then((got) => outgoing.end(createHash('sha256').update(got).digest('hex')))
    if (incoming.headers.range === 'bytes=10-19')
      return outgoing.writeHead(206, { 'content-range': `bytes 10-19/${bytes.length}`, 'content-length': 10 }).end(bytes.subarray(10, 20))
    outgoing.writeHead(200, { 'content-length': bytes.length })
    return outgoing.end(incoming.method === 'HEAD' ? undefined : bytes)
  })
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const hash = createHash('sha256').update(bytes).digest('hex')
  for (const headers of [{ 'content-length': bytes.length }, { 'transfer-encoding': 'chunked' }]) {
    const upload = previews.open(hostname, '/', { method: 'POST', headers })
    upload.end(bytes)
    expect(await text(((await once(upload, 'response')) as [IncomingMessage])[0])).toBe(hash)
  }
  const download = previews.open(hostname, '/')
  download.end()
  const [whole] = (await once(download, 'response')) as [IncomingMessage]
  expect(
    createHash('sha256')
      .update(await buffer(whole))
      .digest('hex'),
  ).toBe(hash)
  const part = await previews.fetch(hostname, '/', { headers: { range: 'bytes=10-19' } })
  expect(part).toMatchObject({ status: 206, headers: { 'content-range': `bytes 10-19/${bytes.length}` } })
  expect(await previews.fetch(hostname, '/', { method: 'HEAD' })).toMatchObject({
    status: 200,
    body: '',
    headers: { 'content-length': String(bytes.length) },
  })
})

test('100 Continue and early hints reach the client', async () => {
  await using program = await app((incoming, outgoing) => {
    outgoing.writeEarlyHints({ link: '</a.css>; rel=preload; as=style' })
    void text(incoming).then((body) => outgoing.end(body))
  })
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const sent = previews.open(hostname, '/', { method: 'POST', headers: { expect: '100-continue', 'content-length': 4 } })
  sent.flushHeaders()
  await once(sent, 'continue')
  const hints = once(sent, 'information')
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>
  sent.end('body')
  expect((await hints)[0]).toMatchObject({ statusCode: 103, headers: { link: '</a.css>; rel=preload; as=style' } })
  expect(await text((await answered)[0])).toBe('body')
})

test('a response that breaks off is cut, not ended', async () => {
  await using program = await app((_, outgoing) => {
    outgoing.writeHead(200, { 'content-length': 100 })
    outgoing.write('half', () => outgoing.destroy())
  })
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const sent = previews.open(hostname, '/')
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  await expect(text(response)).rejects.toThrow('aborted')
})

test('where nobody listens it is 502, as a page for a person and as JSON for a program, with the ports that do', async () => {
  await using program = await echo()
  const { hostname } = previews.expose(await freePort(), { access: 'public' })
  const json = await previews.fetch(hostname, '/', { headers: { accept: 'application/json' } })
  expect(json).toMatchObject({ status: 502, headers: { 'content-type': 'application/json' } })
  const { error } = JSON.parse(json.body) as { error: { code: string; details: { listening: number[] } } }
  expect(error.code).toBe('PORT_NOT_LISTENING')
  expect(error.details.listening).toContain(program.port)
  const page = await previews.fetch(hostname, '/', { headers: { accept: 'text/html' } })
  expect(page).toMatchObject({ status: 502, headers: { 'content-type': 'text/html; charset=utf-8' } })
  expect(page.body).toContain(String(program.port))
})

test('a program that does not speak HTTP is 502, and one whose kept connection has gone is asked anew', async () => {
  await using program = await app((_, outgoing) => void outgoing.end('here'))
  program.server.keepAliveTimeout = 60_000
  const { hostname } = previews.expose(program.port, { access: 'public' })
  for (let i = 0; i < 5; i++) {
    expect((await previews.fetch(hostname)).body).toBe('here')
    program.server.closeIdleConnections()
  }
  program.server.removeAllListeners('request').on('request', ({ socket }) => socket.end('nonsense\r\n\r\n'))
  expect(await previews.fetch(hostname)).toMatchObject({ status: 502 })
})

test('[a port that never answers] requests end after a while, and those that come then are served', async () => {
  await using impatient = await TestPreviews.start({ answerWithinMs: 2000 })
  await using program = await app((incoming, outgoing) => {
    if (incoming.url === '/silent') return
    // What has begun takes as long as it takes, and so does what is still sent.
    if (incoming.url === '/events') return void outgoing.writeHead(200).write('one\n')
    void text(incoming).then((body) => outgoing.end(`got ${body.length}`))
  })
  const { hostname } = impatient.expose(program.port, { access: 'public' })
  const events = impatient.open(hostname, '/events').end()
  const [stream] = (await once(events, 'response')) as [IncomingMessage]
  const slow = impatient.open(hostname, '/upload', { method: 'POST' })
  const trickle = setInterval(() => slow.write('.'), 50)
  const silent = await Promise.all(Array.from({ length: 200 }, () => impatient.fetch(hostname, '/silent')))
  expect(new Set(silent.map(({ status }) => status))).toEqual(new Set([502]))
  expect(silent[0]?.body).toContain('did not begin an answer within 2 s')
  expect((await impatient.fetch(hostname, '/')).body).toBe('got 0')
  expect(stream.destroyed).toBe(false)
  events.destroy()
  clearInterval(trickle)
  const [answer] = (await once(slow.end(), 'response')) as [IncomingMessage]
  expect(await text(answer)).toMatch(/^got \d{2,}$/)
})

test('[a port that never answers] the handshake of a WebSocket ends, too', async () => {
  await using impatient = await TestPreviews.start({ answerWithinMs: 300 })
  await using program = await app(() => {})
  program.server.on('upgrade', (_, socket) => socket.on('error', () => {}))
  const { hostname } = impatient.expose(program.port, { access: 'public' })
  const socket = new WebSocket(`ws://127.0.0.1:${impatient.port}/`, { headers: { host: `${hostname}:${impatient.port}` } })
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  expect(response.statusCode).toBe(502)
  response.destroy()
})

test('200 requests at once are served', async () => {
  await using program = await app(({ url }, outgoing) => void outgoing.end(url))
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => previews.fetch(hostname, `/${i}`)))
  expect(answers.map(({ body }) => body)).toEqual(answers.map((_, i) => `/${i}`))
})

test('connections of a crowd are used again at once, and few of them are kept', async () => {
  let made = 0
  let waiting: (() => void)[] = []
  await using program = await app((_, outgoing) => {
    waiting.push(() => outgoing.end())
    if (waiting.length < 40) return
    for (const answer of waiting) answer()
    waiting = []
  })
  program.server.keepAliveTimeout = 60_000
  program.server.on('connection', () => made++)
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const crowd = () => Promise.all(Array.from({ length: 40 }, () => previews.fetch(hostname)))
  await crowd()
  await crowd()
  expect(made).toBe(40)
  const connections = () =>
    new Promise((resolve, reject) => program.server.getConnections((error, n) => (error ? reject(error) : resolve(n))))
  await eventually(async () => expect(await connections()).toBe(8))
})

const socketTo = (hostname: string, headers: Record<string, string> = {}): WebSocket =>
  new WebSocket(`ws://127.0.0.1:${previews.port}/hmr`, 'vite-hmr', { headers: { host: `${hostname}:${previews.port}`, ...headers } })

test('a WebSocket passes, with the same host and origin as a request, and ends on both sides', async () => {
  await using program = await app((_, outgoing) => void outgoing.end())
  const wss = new WebSocketServer({ server: program.server, handleProtocols: () => 'vite-hmr' })
  const { hostname, url } = previews.expose(program.port)
  const arrived = once(wss, 'connection') as Promise<[WebSocket, IncomingMessage]>
  const client = socketTo(hostname, { origin: url, cookie: `${await previews.cookie(hostname)}; a=1` })
  await once(client, 'open')
  expect(client.protocol).toBe('vite-hmr')
  const [server, { headers }] = await arrived
  expect(headers).toMatchObject({ host: `localhost:${program.port}`, origin: `http://localhost:${program.port}`, cookie: 'a=1' })
  const echoed = once(client, 'message')
  server.on('message', (data) => server.send(data))
  const big = randomBytes(300_000)
  client.send(big)
  expect(((await echoed)[0] as Buffer).equals(big)).toBe(true)
  expect(previews.sandbox.activity.snapshot().attached).toBe(1)
  server.close(4001, 'bye')
  expect(await once(client, 'close')).toMatchObject([4001, Buffer.from('bye')])
  await expect.poll(() => previews.sandbox.activity.snapshot().attached).toBe(0)
})

test('a program’s refusal of a WebSocket comes back as it is', async () => {
  await using program = await app((_, outgoing) => void outgoing.end())
  program.server.on('upgrade', (_, socket) => socket.end('HTTP/1.1 418 Teapot\r\ncontent-length: 2\r\n\r\nno'))
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const client = socketTo(hostname)
  client.on('error', () => {})
  const [, response] = (await once(client, 'unexpected-response')) as [unknown, IncomingMessage]
  expect(response.statusCode).toBe(418)
  expect(await text(response)).toBe('no')
})

test.each([
  [
    'an upgrade with a body',
    'GET / HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nGET /',
    400,
  ],
  ['a target that names a host', 'GET http://other.example/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n', 400],
  ['a target of the whole server', 'OPTIONS * HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n', 400],
  ['TRACE', 'TRACE / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n', 405],
  ['a length beside chunks', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
  ['two lengths', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello', 400],
])('%s is refused and reaches no program', async (_, sent, status) => {
  let reached = 0
  await using program = await app((_, outgoing) => {
    reached++
    outgoing.end()
  })
  const { hostname } = previews.expose(program.port, { access: 'public' })
  expect(await previews.raw(sent.replace('HOST', hostname))).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(reached).toBe(0)
})

test('another protocol than WebSocket that a client offers is left out', async () => {
  await using program = await echo()
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const offer = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AA' }
  const answer = await previews.fetch(hostname, '/', { headers: offer })
  expect(answer.status).toBe(200)
  const { headers } = JSON.parse(answer.body) as { headers: Record<string, string> }
  for (const name of ['upgrade', 'http2-settings']) expect(headers).not.toHaveProperty(name)
})

test('CONNECT is no way in', async () => {
  await using program = await echo()
  const { hostname } = previews.expose(program.port, { access: 'public' })
  expect(await previews.raw(`CONNECT ${hostname}:80 HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`)).not.toContain('200')
})

test('the body of a GET stays one request to the program', async () => {
  const seen: string[] = []
  await using program = await app((incoming, outgoing) => {
    void text(incoming).then((body) => {
      seen.push(`${incoming.method} ${incoming.url} ${body}`)
      outgoing.end()
    })
  })
  const { hostname } = previews.expose(program.port, { access: 'public' })
  const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n'
  for (const framing of [
    `Content-Length: ${smuggled.length}\r\nConnection: close, content-length\r\n\r\n${smuggled}`,
    `Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`,
  ])
    expect(await previews.raw(`GET /outer HTTP/1.1\r\nHost: ${hostname}\r\n${framing}`)).toMatch(/^HTTP\/1\.1 200 /)
  expect(seen).toEqual([`GET /outer ${smuggled}`, `GET /outer ${smuggled}`])
})
