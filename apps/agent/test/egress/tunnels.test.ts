import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { freePort, listening, pattern, tcp } from '../support/listening.ts'
import { ORIGIN_CERTIFICATE, PROXY_CERTIFICATE, PUBLIC_ADDRESS, proxies, readAll, readUntil, sendConnect } from './support/proxy.ts'

const start = proxies()

/** Sends back what it gets, and its end. */
const echo = () => tcp((socket) => void socket.pipe(socket))

const tlsEcho = () =>
  listening(
    createTlsServer({ ...ORIGIN_CERTIFICATE, allowHalfOpen: true } as object, (socket) => void socket.on('error', () => {}).pipe(socket)),
  )

const https = () =>
  listening(
    createHttpsServer(ORIGIN_CERTIFICATE, (incoming, response) =>
      response.end(`${incoming.method} ${incoming.url} ${incoming.headers.authorization}`),
    ),
  )

/** TLS through a tunnel that is open; `cert` is whom the client trusts. */
const tlsOver = async (socket: Socket, servername: string, cert: string) => {
  const tls = connectTls({ socket, servername, ca: cert }).on('error', () => {})
  await once(tls, 'secureConnect')
  return tls
}

describe('CONNECT', () => {
  test('carries TLS of an allowed host as it is', async () => {
    await using origin = await tlsEcho()
    const { connect, decisions, dialled, proxy } = await start({ allow: ['origin.example'] }, { ports: { 443: origin.port } })
    const socket = await connect()
    expect(await sendConnect(socket, 'Origin.Example.:443')).toBe('HTTP/1.1 200 Connection established\r\n\r\n')
    // The certificate is the origin's: nobody opened it.
    const tls = await tlsOver(socket, 'origin.example', ORIGIN_CERTIFICATE.cert)
    const sent = pattern(1024 * 1024)
    tls.write(sent)
    const got: Buffer[] = []
    let length = 0
    tls.on('data', (piece: Buffer) => {
      got.push(piece)
      length += piece.length
    })
    await eventually(() => expect(length).toBe(sent.length))
    expect(Buffer.concat(got).equals(sent)).toBe(true)
    expect(decisions).toEqual([
      { at: expect.any(Number), allowed: true, host: 'origin.example', port: 443, protocol: 'connect', rule: 'origin.example' },
    ])
    expect(dialled).toEqual([`${PUBLIC_ADDRESS}:443`])
    expect(proxy.connections).toBe(1)
    expect(proxy.bytes.sent).toBeGreaterThan(sent.length)
    expect(proxy.bytes.received).toBeGreaterThan(sent.length)
    tls.destroy()
    await eventually(() => expect(proxy.connections).toBe(0))
    expect(proxy.bytes.sent).toBeGreaterThan(sent.length)
  })

  test('[sbx-releases#611] refuses another host with 403, code, host and hint, and does not resolve it', async () => {
    const { connect, decisions, dialled } = await start({ allow: ['origin.example'], deny: ['*.evil.example'] })
    const socket = await connect()
    socket.write('CONNECT a.evil.example:443 HTTP/1.1\r\n\r\n')
    const [head = '', body = ''] = (await readAll(socket)).toString().split('\r\n\r\n')
    expect(head).toMatch(/^HTTP\/1\.1 403 Forbidden\r\nX-Boxoffice-Egress: denied\r\n/)
    expect(JSON.parse(body)).toEqual({
      error: { code: 'EGRESS_DENIED', message: expect.stringContaining('a.evil.example') },
      ...{ code: 'denied', host: 'a.evil.example', rule: '*.evil.example', hint: expect.any(String) },
    })
    expect(decisions).toMatchObject([{ allowed: false, code: 'denied', host: 'a.evil.example', port: 443, protocol: 'connect' }])
    expect(dialled).toEqual([])
  })

  test('says 502 where nobody listens, and where the name has no address', async () => {
    const gone = await freePort()
    const unreachable = await start({ allow: ['origin.example'] }, { ports: { 443: gone } })
    expect(await sendConnect(await unreachable.connect(), 'origin.example:443')).toMatch(/^HTTP\/1\.1 502 .*\r\nX-Boxoffice-Egress: denied/)
    expect(unreachable.decisions).toMatchObject([{ allowed: false, code: 'unreachable' }])
    const unknown = await start({ allow: ['origin.example'] }, { resolve: () => Promise.reject(new Error('ENOTFOUND')) })
    expect(await sendConnect(await unknown.connect(), 'origin.example:443')).toMatch(/^HTTP\/1\.1 502 /)
    expect(unknown.decisions).toMatchObject([{ allowed: false, code: 'unresolvable' }])
  })

  test('takes bytes that come with the head', async () => {
    await using origin = await echo()
    const { connect } = await start({ allow: ['origin.example:9000'] }, { ports: { 9000: origin.port } })
    const socket = await connect()
    socket.end('CONNECT origin.example:9000 HTTP/1.1\r\nProxy-Connection: keep-alive\r\n\r\nearly bytes')
    expect((await readAll(socket)).toString()).toBe('HTTP/1.1 200 Connection established\r\n\r\nearly bytes')
  })

  test('lets a server speak first on a port that is named', async () => {
    await using origin = await tcp((socket) => void socket.write('220 hello\r\n'))
    const { connect } = await start({ allow: ['origin.example:2525'] }, { ports: { 2525: origin.port } })
    const socket = await connect()
    await sendConnect(socket, 'origin.example:2525')
    expect((await readUntil(socket, '\r\n')).toString()).toBe('220 hello\r\n')
  })

  test('passes the end of one way on, and carries the other one on', async () => {
    const received = Promise.withResolvers<string>()
    await using origin = await tcp((socket) => {
      void readAll(socket).then((bytes) => {
        received.resolve(bytes.toString())
        socket.end('answer after the end')
      })
    })
    const { connect, proxy } = await start({ allow: ['origin.example:9000'] }, { ports: { 9000: origin.port } })
    const socket = await connect()
    await sendConnect(socket, 'origin.example:9000')
    socket.end('question')
    expect(await received.promise).toBe('question')
    expect((await readAll(socket)).toString()).toBe('answer after the end')
    await eventually(() => expect(proxy.connections).toBe(0))
  })

  test('holds a server up while the client does not read', async () => {
    let written = 0
    let isHeldUp = false
    await using origin = await tcp((socket) => {
      const chunk = Buffer.alloc(64 * 1024)
      const more = (): void => {
        while (written < 256 * 1024 * 1024) {
          written += chunk.length
          if (!socket.write(chunk)) return void socket.once('drain', more)
        }
      }
      socket.on('error', () => {})
      more()
    })
    const { connect } = await start({ allow: ['origin.example:9000'] }, { ports: { 9000: origin.port } })
    const socket = await connect()
    await sendConnect(socket, 'origin.example:9000')
    // Whoever is held up writes no more between two looks.
    let before = -1
    await eventually(() => {
      isHeldUp = written > 0 && written === before
      before = written
      expect(isHeldUp).toBe(true)
    })
    expect(written).toBeLessThan(64 * 1024 * 1024)
  })

  test('breaks the client off where the server breaks off', async () => {
    await using origin = await tcp((socket) => void socket.once('data', () => socket.resetAndDestroy()))
    const { connect } = await start({ allow: ['origin.example:9000'] }, { ports: { 9000: origin.port } })
    const socket = await connect()
    await sendConnect(socket, 'origin.example:9000')
    const failed = once(socket, 'error').catch((error: unknown) => [error])
    socket.write('x')
    socket.resume()
    expect((await failed)[0]).toMatchObject({ code: 'ECONNRESET' })
  })
})

describe('TLS of a host with rules', () => {
  const rules = [
    { host: 'origin.example', methods: ['GET'], inject: [{ header: 'authorization', secret: 'key', template: 'Bearer {{secret}}' }] },
  ]

  test('is opened, and requests pass the gate', async () => {
    await using origin = await https()
    const { connect, decisions } = await start(
      { rules },
      { ports: { 443: origin.port }, secrets: (name) => (name === 'key' ? 's3cret' : undefined) },
    )
    const ask = async (method: string): Promise<string> => {
      const socket = await connect()
      await sendConnect(socket, 'origin.example:443')
      const tls = await tlsOver(socket, 'origin.example', PROXY_CERTIFICATE.cert)
      tls.write(`${method} /path HTTP/1.1\r\nHost: origin.example\r\nAuthorization: mine\r\nConnection: close\r\n\r\n`)
      return (await readAll(tls)).toString()
    }
    expect(await ask('GET')).toContain('GET /path Bearer s3cret')
    expect(await ask('PUT')).toMatch(/^HTTP\/1\.1 403 [\s\S]*method_not_allowed/)
    expect(decisions.map(({ protocol, method, allowed }) => [protocol, method, allowed])).toEqual([
      ['connect', undefined, true],
      ['tls', 'GET', true],
      ['connect', undefined, true],
      ['tls', 'PUT', false],
    ])
  })
})

describe('what is not TLS', () => {
  test('is cut on a port that was not named', async () => {
    await using origin = await echo()
    const { connect, decisions } = await start({ allow: ['origin.example', 'other.example:443'] }, { ports: { 443: origin.port } })
    for (const host of ['origin.example', 'other.example']) {
      const socket = await connect()
      await sendConnect(socket, `${host}:443`)
      socket.write('SSH-2.0-client\r\n')
      expect((await readAll(socket)).toString()).not.toContain('SSH')
    }
    expect(decisions.map(({ code, protocol }) => [code, protocol])).toEqual([
      ['not_tls', 'tls'],
      ['not_tls', 'tls'],
    ])
  })

  test('is HTTP on port 80 of a host that * allows', async () => {
    await using origin = await listening(createHttpServer((incoming, response) => response.end(`got ${incoming.url}`)))
    const { connect } = await start({ allow: ['*'] }, { ports: { 80: origin.port } })
    const socket = await connect()
    await sendConnect(socket, 'origin.example:80')
    socket.write('GET /x HTTP/1.1\r\nHost: origin.example\r\nConnection: close\r\n\r\n')
    expect((await readAll(socket)).toString()).toContain('got /x')
  })
})

describe('the proxy of the agent itself', () => {
  test('is told the name, and gets its user and password', async () => {
    await using origin = await tlsEcho()
    const outer = await start({ allow: ['origin.example'] }, { ports: { 443: origin.port } })
    const heads: string[] = []
    await using watching = await tcp(async (socket) => {
      const head = await readUntil(socket, '\r\n\r\n')
      heads.push(head.toString())
      const onward = await outer.connect()
      onward.write(head)
      socket.pipe(onward).pipe(socket)
    })
    const upstream = new URL(`http://user:p%40ss@127.0.0.1:${watching.port}`)
    const inner = await start(
      { allow: ['*'], deny: ['denied.example'] },
      { upstream: () => upstream, resolve: () => expect.fail('the name was resolved') },
    )
    const socket = await inner.connect()
    await sendConnect(socket, 'origin.example:443')
    const tls = await tlsOver(socket, 'origin.example', ORIGIN_CERTIFICATE.cert)
    tls.write('through two')
    expect(String((await once(tls, 'data'))[0])).toBe('through two')
    expect(heads[0]).toContain(`Proxy-Authorization: Basic ${Buffer.from('user:p@ss').toString('base64')}\r\n`)
    expect(await sendConnect(await inner.connect(), 'denied.example:443')).toMatch(/^HTTP\/1\.1 403 /)
    // The outer one refuses it.
    expect(await sendConnect(await inner.connect(), 'other.example:443')).toMatch(/^HTTP\/1\.1 502 /)
    expect(await sendConnect(await inner.connect(), '127.0.0.1:443')).toMatch(/^HTTP\/1\.1 403 /)
  })
})
