import { once } from 'node:events'
import { createServer as createHttpServer, request, type Server } from 'node:http'
import { type AddressInfo, createServer, type Socket, type Server as TcpServer } from 'node:net'
import { Duplex } from 'node:stream'
import { afterEach, expect, test } from 'vitest'
import { passRequest } from '../src/index.ts'

const servers: (Server | TcpServer)[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

const portOf = async (server: Server | TcpServer): Promise<number> => {
  servers.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

/** What a client gets where the other side answers like this; 502 with the reason where it cannot be passed on. */
const passed = async (answer: string): Promise<[status: number, body: string]> => {
  const port = await portOf(
    createServer((socket) => void socket.on('error', () => {}).once('data', () => socket.end(Buffer.from(answer, 'latin1')))),
  )
  const front = createHttpServer((incoming, outgoing) => {
    const begin = () => request({ host: '127.0.0.1', port, agent: false })
    passRequest({ incoming, outgoing, begin, headersOf: () => [] }).catch((error: Error) => outgoing.writeHead(502).end(error.message))
  })
  const response = await fetch(`http://127.0.0.1:${await portOf(front)}/`)
  return [response.status, await response.text()]
}

test.each([
  ['a status below 100', 'HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n', /Invalid status code/],
  ['another protocol unasked', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\n', /unasked/],
  ['no HTTP', 'hello\r\n\r\n', /Parse Error/],
])('an answer with %s is the failure of its request alone', async (_, answer, reason) => {
  expect(await passed(answer)).toEqual([502, expect.stringMatching(reason)])
})

test('a reason with control characters is not passed on', async () => {
  expect(await passed('HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\nhi')).toEqual([200, 'hi'])
})

test('hints that are none are left out, and the response is passed on', async () => {
  const hints = 'HTTP/1.1 103 Early Hints\r\nLink: odd\r\n\r\n'
  expect(await passed(`${hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi`)).toEqual([200, 'hi'])
})

/** A connection of a client whose writes are counted, which has asked for `/`. */
class Counted extends Duplex {
  readonly writes: string[] = []
  override _read(): void {}
  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.#take([chunk], done)
  }
  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.#take(
      chunks.map(({ chunk }) => chunk),
      done,
    )
  }
  #take(chunks: Buffer[], done: () => void): void {
    this.writes.push(Buffer.concat(chunks).toString())
    done()
    this.emit('taken')
  }
}

test.each([
  ['with its length', 'Content-Length: 2\r\n\r\nhi', /\r\n\r\nhi$/],
  ['in chunks', 'Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n', /\r\n\r\n2\r\nhi\r\n0\r\n\r\n$/],
])('a small response %s leaves in one write', async (_, rest, written) => {
  const port = await portOf(
    createServer((socket) => void socket.on('error', () => {}).once('data', () => socket.end(`HTTP/1.1 200 OK\r\n${rest}`))),
  )
  const client = new Counted()
  const front = createHttpServer((incoming, outgoing) => {
    const length = rest.startsWith('Content-Length') ? ['Content-Length', '2'] : []
    void passRequest({ incoming, outgoing, begin: () => request({ host: '127.0.0.1', port, agent: false }), headersOf: () => length })
  })
  front.emit('connection', client)
  client.push('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  await once(client, 'finish')
  expect(client.writes).toEqual([expect.stringMatching(written)])
})

test('the head of a response does not wait for its body', async () => {
  const origin = Promise.withResolvers<Socket>()
  const port = await portOf(
    createServer((socket) => {
      socket.on('error', () => {}).once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n'))
      origin.resolve(socket)
    }),
  )
  const client = new Counted()
  const front = createHttpServer((incoming, outgoing) => {
    const begin = () => request({ host: '127.0.0.1', port, agent: false })
    void passRequest({ incoming, outgoing, begin, headersOf: () => ['Content-Length', '2'] })
  })
  front.emit('connection', client)
  client.push('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  await once(client, 'taken')
  expect(client.writes).toEqual([expect.stringMatching(/\r\n\r\n$/)])
  ;(await origin.promise).end('hi')
  await once(client, 'finish')
  expect(client.writes.slice(1)).toEqual(['hi'])
})
