import { createServer } from 'node:http'
import { connect as connectTls } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { freePort, listening, tcp } from '../support/listening.ts'
import { ORIGIN_CERTIFICATE, proxies, readAll, readUntil } from './support/proxy.ts'

const start = proxies()

/** Says what it was asked. */
const http = () =>
  listening(
    createServer((incoming, response) => {
      const { host, cookie, ...others } = incoming.headers
      incoming.toArray().then((pieces) => response.end(JSON.stringify({ host, url: incoming.url, cookie, others, body: pieces.join('') })))
    }),
  )

describe('HTTP with a whole URL', () => {
  test('reaches a host whose port is named, without headers for the proxy', async () => {
    await using origin = await http()
    const { connect, decisions, dialled } = await start({ allow: ['origin.example:80'] }, { ports: { 80: origin.port } })
    const socket = await connect()
    socket.write(
      [
        'POST http://ORIGIN.example/path?q=1 HTTP/1.1\r\nHost: origin.example\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive',
        'Connection: keep-alive\r\nCookie: a=b\r\nContent-Length: 4\r\n\r\nbody',
      ].join('\r\n'),
    )
    const answer = (await readAll(socket)).toString()
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(JSON.parse(answer.slice(answer.indexOf('{')))).toMatchObject({
      host: 'origin.example',
      url: '/path?q=1',
      cookie: 'a=b',
      body: 'body',
    })
    expect(answer).not.toMatch(/proxy-/i)
    expect(decisions).toMatchObject([{ allowed: true, protocol: 'http', method: 'POST', path: '/path', host: 'origin.example', port: 80 }])
    expect(dialled).toHaveLength(1)
  })

  test('ends after one request: the next one may be for another host', async () => {
    await using origin = await http()
    const { connect } = await start({ allow: ['origin.example:80'] }, { ports: { 80: origin.port } })
    const socket = await connect()
    const head = (host: string) => `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`
    socket.write(head('origin.example') + head('denied.example'))
    const answers = (await readAll(socket)).toString()
    expect(answers.match(/HTTP\/1\.1 /g)).toHaveLength(1)
    expect(answers).toMatch(/connection: close/i)
  })

  test('is refused with the path that was asked for', async () => {
    const { connect, decisions } = await start({ allow: ['origin.example'] })
    const socket = await connect()
    socket.end('GET http://origin.example/x?y HTTP/1.1\r\nHost: origin.example\r\n\r\n')
    expect((await readAll(socket)).toString()).toMatch(/^HTTP\/1\.1 403 [\s\S]*"code":"port_refused","host":"origin.example"/)
    expect(decisions).toMatchObject([{ allowed: false, protocol: 'http', method: 'GET', path: '/x?y', code: 'port_refused' }])
  })

  test('becomes a WebSocket', async () => {
    await using origin = await http()
    const sockets = new WebSocketServer({ server: origin.server })
    sockets.on('connection', (socket) => socket.send('hello from the origin'))
    const { connect } = await start({ allow: ['origin.example:80'] }, { ports: { 80: origin.port } })
    const socket = await connect()
    const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13'
    socket.write(
      `GET http://origin.example/ws HTTP/1.1\r\nHost: origin.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${key}\r\n\r\n`,
    )
    expect((await readUntil(socket, '\r\n\r\n')).toString()).toMatch(/^HTTP\/1\.1 101 /)
    expect((await readUntil(socket, 'origin')).toString()).toContain('hello from the origin')
    sockets.close()
  })

  test.each([
    ['a path alone', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['https', 'GET https://origin.example/ HTTP/1.1\r\n\r\n'],
    ['a user', 'GET http://user:pass@origin.example/ HTTP/1.1\r\n\r\n'],
    ['port 0', 'CONNECT origin.example:0 HTTP/1.1\r\n\r\n'],
    ['no port', 'CONNECT origin.example HTTP/1.1\r\n\r\n'],
    ['IPv6 without brackets', 'CONNECT 2606:4700::1:443 HTTP/1.1\r\n\r\n'],
    ['a zone', 'CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\n\r\n'],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a folded header', 'CONNECT origin.example:443 HTTP/1.1\r\nA: b\r\n c\r\n\r\n'],
    ['a bare line feed', 'CONNECT origin.example:443 HTTP/1.1\r\nA: b\nC: d\r\n\r\n'],
    ['a space before the colon', 'CONNECT origin.example:443 HTTP/1.1\r\nHost : b\r\n\r\n'],
  ])('is 400 with %s', async (_, head) => {
    const { connect, decisions } = await start({ allow: ['*', 'origin.example'] })
    const socket = await connect()
    socket.write(head)
    expect((await readAll(socket)).toString()).toMatch(/^HTTP\/1\.1 400 Bad Request\r\nX-Boxoffice-Egress: denied/)
    expect(decisions).toMatchObject([{ allowed: false, code: 'bad_request' }])
  })
})

describe('SOCKS5', () => {
  const name = (host: string, port: number): Buffer =>
    Buffer.concat([Buffer.of(5, 1, 0, 3, host.length), Buffer.from(host), Buffer.of(port >> 8, port & 255)])
  const reply = async (connect: () => Promise<import('node:net').Socket>, request: Buffer): Promise<number | undefined> => {
    const socket = await connect()
    socket.write(Buffer.of(5, 2, 1, 0))
    expect([...(await readUntil(socket, 2))]).toEqual([5, 0])
    socket.write(request)
    return (await readUntil(socket, 10))[1]
  }

  test('carries a connection, byte by byte or in one piece', async () => {
    await using origin = await tcp((socket) => void socket.pipe(socket))
    const { connect, decisions } = await start({ allow: ['origin.example:9000'] }, { ports: { 9000: origin.port } })
    const bytes = Buffer.concat([Buffer.of(5, 1, 0), name('origin.example', 9000), Buffer.from('early')])
    const socket = await connect()
    socket.end(bytes)
    expect((await readAll(socket)).toString('latin1')).toBe('\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00early')
    const slow = await connect()
    slow.setNoDelay(true)
    for (const byte of bytes) await new Promise<void>((resolve) => void slow.write(Buffer.of(byte), () => resolve()))
    slow.end()
    expect((await readAll(slow)).subarray(12).toString()).toBe('early')
    expect(decisions).toMatchObject([{ allowed: true, protocol: 'socks5', host: 'origin.example', port: 9000 }, { allowed: true }])
  })

  test('holds TLS to the name as CONNECT does', async () => {
    await using origin = await tcp(() => {})
    const { connect, decisions } = await start({ allow: ['origin.example'] }, { ports: { 443: origin.port } })
    const socket = await connect()
    socket.write(Buffer.concat([Buffer.of(5, 1, 0), name('origin.example', 443)]))
    await readUntil(socket, 12)
    const tls = connectTls({ socket, servername: 'other.example', ca: ORIGIN_CERTIFICATE.cert })
    const error = await new Promise<Error>((resolve) => void tls.once('error', resolve))
    expect(error.message).toMatch(/unrecognized name/)
    expect(decisions).toMatchObject([{ allowed: false, code: 'sni_mismatch', protocol: 'tls' }])
  })

  test('answers with a number that says why not', async () => {
    const { connect } = await start({ allow: ['origin.example', 'origin.example:9000'] }, { ports: { 9000: await freePort() } })
    expect(await reply(connect, name('denied.example', 443))).toBe(2)
    expect(await reply(connect, Buffer.of(5, 1, 0, 1, 127, 0, 0, 1, 1, 187))).toBe(2)
    expect(await reply(connect, Buffer.concat([Buffer.of(5, 1, 0, 4), Buffer.alloc(15), Buffer.of(1, 1, 187)]))).toBe(2)
    expect(await reply(connect, name('origin.example', 9000))).toBe(5)
    expect(await reply(connect, Buffer.of(5, 2, 0, 1, 8, 8, 8, 8, 1, 187))).toBe(7)
    expect(await reply(connect, Buffer.of(5, 3, 0, 1, 8, 8, 8, 8, 1, 187))).toBe(7)
    expect(await reply(connect, Buffer.of(5, 1, 0, 9, 8, 8, 8, 8, 1, 187))).toBe(8)
    const unknown = await start({ allow: ['*'] }, { resolve: async () => [] })
    expect(await reply(unknown.connect, name('origin.example', 443))).toBe(4)
  })

  test('is refused to a client that insists on a password', async () => {
    const { connect } = await start({ allow: ['*'] })
    const socket = await connect()
    socket.write(Buffer.of(5, 1, 2))
    expect([...(await readAll(socket))]).toEqual([5, 0xff])
  })
})
