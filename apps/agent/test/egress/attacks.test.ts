import type { Socket } from 'node:net'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { peekOpening } from '../../src/egress/proxy/client-hello.ts'
import { eventually } from '../support/eventually.ts'
import { listening, tcp } from '../support/listening.ts'
import { closed, ORIGIN_CERTIFICATE, proxies, readAll, readUntil, sendConnect } from './support/proxy.ts'

const start = proxies()

/** The bytes with which a client of TLS begins. */
const clientHello = async (servername: string | undefined): Promise<Buffer> => {
  const seen = Promise.withResolvers<Buffer>()
  await using server = await tcp((socket) => void socket.once('data', (bytes) => seen.resolve(bytes)))
  const client = connectTls({ port: server.port, host: '127.0.0.1', servername: servername ?? '' }).on('error', () => {})
  const bytes = await seen.promise
  client.destroy()
  return bytes
}

/** The same message in records of `size` bytes. */
const inRecords = (hello: Buffer, size: number): Buffer => {
  const message = hello.subarray(5)
  const records: Buffer[] = []
  for (let at = 0; at < message.length; at += size) {
    const piece = message.subarray(at, at + size)
    records.push(Buffer.of(22, 3, 1, piece.length >> 8, piece.length & 255), piece)
  }
  return Buffer.concat(records)
}

describe('addresses that are not public', () => {
  test('a name that answers with a public address first and with loopback afterwards is resolved once', async () => {
    await using origin = await tcp((socket) => void socket.pipe(socket))
    const answers = [['93.184.215.14'], ['127.0.0.1'], ['127.0.0.1']]
    let asked = 0
    const resolve = async () => answers[asked++] ?? []
    const { connect, dialled, decisions } = await start({ allow: ['rebind.example:9000'] }, { resolve, ports: { 9000: origin.port } })
    const socket = await connect()
    expect(await sendConnect(socket, 'rebind.example:9000')).toMatch(/ 200 /)
    expect(asked).toBe(1)
    expect(await sendConnect(await connect(), 'rebind.example:9000')).toMatch(/ 403 /)
    expect(dialled).toEqual(['93.184.215.14:9000'])
    expect(decisions).toMatchObject([{ allowed: true }, { allowed: false, code: 'private_address' }])
  })

  test.each([
    ...['127.0.0.1', '2130706433', '0x7f.1', '0177.0.0.1', '127.1', '0', '[::1]', '[::]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]'],
    ...['[64:ff9b::7f00:1]', '[2002:7f00:1::]', '169.254.169.254', '2852039166', '[fd00:ec2::254]', '10.0.0.1', '100.64.0.1', '[fe80::1]'],
  ])('%s is not reached, by CONNECT or by URL, where it is allowed by name', async (host) => {
    const { connect, dialled, decisions } = await start({ allow: [`${host}:80`, `${host}:443`] })
    expect(await sendConnect(await connect(), `${host}:443`)).toMatch(/^HTTP\/1\.1 403 /)
    const socket = await connect()
    socket.end(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect((await readAll(socket)).toString()).toMatch(/^HTTP\/1\.1 403 [\s\S]*private_address/)
    expect(decisions.map(({ code }) => code)).toEqual(['private_address', 'private_address'])
    expect(dialled).toEqual([])
  })

  test('are reached where the policy allows private ones, and where the agent excepts one host and port', async () => {
    await using origin = await tcp((socket) => void socket.end())
    const resolve = async () => ['10.0.0.5', '127.0.0.1']
    const policy = { allow: ['a.example:9000'], private_addresses: true }
    const some = await start(policy, { resolve, ports: { 9000: origin.port } })
    expect(await sendConnect(await some.connect(), 'a.example:9000')).toMatch(/ 200 /)
    expect(some.dialled).toEqual(['10.0.0.5:9000'])
    const exceptions = [{ host: 'mirror.example', port: 9000 }]
    const other = await start(
      { allow: ['mirror.example:9001'] },
      { resolve: async () => ['127.0.0.1'], exceptions, ports: { 9000: origin.port } },
    )
    expect(await sendConnect(await other.connect(), 'mirror.example:9000')).toMatch(/ 200 /)
    expect(await sendConnect(await other.connect(), 'mirror.example:9001')).toMatch(/ 403 /)
  })
})

describe('[benchflow#1122] TLS that shows another name', () => {
  test.each([
    ['another name', 'other.example'],
    ['no name', undefined],
  ])('%s: is cut, and nothing of it reaches the origin', async (_, servername) => {
    const received: Buffer[] = []
    await using origin = await tcp((socket) => void socket.on('data', (bytes: Buffer) => received.push(bytes)))
    for (const policy of [{ allow: ['origin.example'] }, { rules: [{ host: 'origin.example' }] }]) {
      const { connect, decisions } = await start(policy, { ports: { 443: origin.port } })
      const socket = await connect()
      await sendConnect(socket, 'origin.example:443')
      socket.write(await clientHello(servername))
      expect([...(await readAll(socket))]).toEqual([21, 3, 1, 0, 2, 2, 112])
      expect(decisions).toMatchObject([{ allowed: false, code: 'sni_mismatch', protocol: 'tls', host: 'origin.example' }])
    }
    expect(received).toEqual([])
  })

  test('is found in a ClientHello of many records and reads', async () => {
    await using origin = await tcp(() => {})
    const { connect, decisions } = await start({ allow: ['origin.example'] }, { ports: { 443: origin.port } })
    const socket = await connect()
    socket.setNoDelay(true)
    await sendConnect(socket, 'origin.example:443')
    const bytes = inRecords(await clientHello('other.example'), 100)
    for (let at = 0; at < bytes.length; at += 37)
      await new Promise<void>((resolve) => void socket.write(bytes.subarray(at, at + 37), () => resolve()))
    await readAll(socket)
    expect(decisions).toMatchObject([{ code: 'sni_mismatch' }])
  })

  test('to an address is cut as well; TLS without a name goes through', async () => {
    await using origin = await listening(createTlsServer(ORIGIN_CERTIFICATE, (socket) => void socket.on('error', () => {}).end('hello')))
    const { connect, decisions } = await start({ allow: ['8.8.8.8'] }, { ports: { 443: origin.port } })
    const named = await connect()
    await sendConnect(named, '8.8.8.8:443')
    named.write(await clientHello('origin.example'))
    await readAll(named)
    const nameless = await connect()
    await sendConnect(nameless, '8.8.8.8:443')
    const tls = connectTls({ socket: nameless, rejectUnauthorized: false }).on('error', () => {})
    expect((await readAll(tls)).toString()).toBe('hello')
    expect(decisions.map(({ code, allowed }) => code ?? allowed)).toEqual(['sni_mismatch', true])
  })

  test('is read the same whatever its records; garbage is never TLS with a name', async () => {
    const hello = await clientHello('origin.example')
    const opening = { isTls: true, sni: 'origin.example' }
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 600 }), (size) => {
        expect(peekOpening(inRecords(hello, size))).toEqual({ value: opening, used: 0 })
      }),
    )
    for (let length = 0; length < hello.length; length++) expect(peekOpening(hello.subarray(0, length))).toBeUndefined()
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const found = peekOpening(Buffer.from(bytes))?.value
        expect(found?.isTls === true && found.sni !== undefined).toBe(false)
      }),
    )
    // Two names: readers would not agree which one counts.
    const at = hello.indexOf('origin.example') - 9
    const extension = hello.subarray(at, at + 9 + 'origin.example'.length)
    expect(hello.readUInt16BE(at)).toBe(0)
    const twice = Buffer.concat([hello.subarray(0, at), extension, hello.subarray(at)])
    const more = extension.length
    twice.writeUInt16BE(twice.readUInt16BE(3) + more, 3)
    twice.writeUIntBE(twice.readUIntBE(6, 3) + more, 6, 3)
    const session = 5 + 4 + 34
    const suites = session + 1 + twice.readUInt8(session)
    const extensions = suites + 2 + twice.readUInt16BE(suites) + 2
    twice.writeUInt16BE(twice.readUInt16BE(extensions) + more, extensions)
    expect(peekOpening(twice)?.value).toEqual({ isTls: false })
  })
})

describe('clients that mean harm', () => {
  test('a head of 1 MiB is refused after 16 KiB', async () => {
    const { connect, decisions, proxy } = await start({ allow: ['*'] })
    const socket = await connect()
    socket.write(`CONNECT origin.example:443 HTTP/1.1\r\nX: ${'x'.repeat(1024 * 1024)}`)
    expect((await readAll(socket)).toString()).toMatch(/^HTTP\/1\.1 400 /)
    expect(decisions).toMatchObject([{ code: 'bad_request', hint: expect.stringContaining('16 KiB') }])
    socket.end()
    await eventually(() => expect(proxy.connections).toBe(0))
  })

  test('a head that never ends is refused after its time, however much of it comes', async () => {
    const { connect, decisions } = await start({ allow: ['*'] }, { limits: { headMs: 300 } })
    const socket = await connect()
    const dripping = setInterval(() => socket.write('x'), 20)
    try {
      expect((await readAll(socket)).toString()).toMatch(/^HTTP\/1\.1 400 /)
    } finally {
      clearInterval(dripping)
    }
    expect(decisions).toMatchObject([{ code: 'bad_request', hint: expect.stringContaining('in time') }])
  })

  test('a client that says nothing is closed, before its head and before TLS', async () => {
    await using origin = await tcp(() => {})
    const { connect, decisions, proxy } = await start({ allow: ['*'] }, { limits: { headMs: 200 }, ports: { 443: origin.port } })
    await readAll(await connect())
    const socket = await connect()
    await sendConnect(socket, 'origin.example:443')
    await readAll(socket)
    socket.destroy()
    expect(decisions).toMatchObject([{ code: 'not_tls' }])
    await eventually(() => expect(proxy.connections).toBe(0))
  })

  test('garbage is closed without an answer', async () => {
    const { connect, decisions } = await start({ allow: ['*'] })
    for (const bytes of [Buffer.of(4, 1, 0, 80, 8, 8, 8, 8, 0), Buffer.of(0), await clientHello('origin.example'), Buffer.of(0xff, 5)]) {
      const socket = await connect()
      socket.write(bytes)
      expect((await readAll(socket)).length).toBe(0)
    }
    expect(decisions).toEqual([])
  })

  test('SOCKS garbage ends in a refusal or a close, and nothing is dialled', async () => {
    const { connect, dialled, proxy } = await start({ allow: ['origin.example'] }, { limits: { headMs: 300 } })
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 64 }), async (bytes) => {
        const socket = await connect()
        socket.end(Buffer.concat([Buffer.of(5), bytes]))
        const answer = await readAll(socket)
        expect(answer.length).toBeLessThanOrEqual(12)
        socket.destroy()
      }),
      { numRuns: 50 },
    )
    expect(dialled).toEqual([])
    await eventually(() => expect(proxy.connections).toBe(0))
  })

  test('of 1,000 connections 256 are served, some are told why not, and the others closed; later ones are served again', async () => {
    const sockets: Socket[] = []
    await using origin = await tcp((socket) => void socket.on('error', () => {}).pipe(socket))
    const { connect, proxy, decisions } = await start({ allow: ['origin.example:9000'] }, { ports: { 9000: origin.port } })
    const answers = await Promise.all(
      Array.from({ length: 1000 }, async () => {
        const socket = await connect()
        sockets.push(socket)
        return sendConnect(socket, 'origin.example:9000').then(
          (head) => head.slice(9, 12),
          () => 'closed',
        )
      }),
    )
    const count = (answer: string): number => answers.filter((one) => one === answer).length
    expect(count('200')).toBe(256)
    expect(count('403')).toBeGreaterThan(0)
    expect(count('200') + count('403') + count('closed')).toBe(1000)
    expect(proxy.connections).toBe(256)
    expect(decisions.filter(({ code }) => code === 'too_many_connections')).toHaveLength(count('403'))
    for (const socket of sockets) socket.end()
    await eventually(() => expect(proxy.connections).toBe(0))
    expect(await sendConnect(await connect(), 'origin.example:9000')).toMatch(/ 200 /)
  })

  test('close cuts what is open and takes no more', async () => {
    const taken = Promise.withResolvers<Socket>()
    await using origin = await tcp((socket) => taken.resolve(socket.on('error', () => {})))
    const { connect, proxy } = await start({ allow: ['origin.example:9000'] }, { ports: { 9000: origin.port } })
    const socket = await connect()
    await sendConnect(socket, 'origin.example:9000')
    const atOrigin = await taken.promise
    proxy.close()
    await Promise.all([closed(socket), closed(atOrigin)])
    await expect(readUntil(await connect(), 1)).rejects.toThrow(/ended/)
  })
})
