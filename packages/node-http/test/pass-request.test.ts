import { once } from 'node:events'
import { createServer as createHttpServer, request, type Server } from 'node:http'
import { type AddressInfo, createServer, type Server as TcpServer } from 'node:net'
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
