import { once } from 'node:events'
import { createServer as createHttpServer, request } from 'node:http'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { endToEndHeaders, passUpgrade } from '../src/index.ts'

const portOf = async (server: Server): Promise<number> => {
  onTestFinished(() => void server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

test('a refusal has the usual reason, whatever the other side wrote there', async () => {
  const port = await portOf(
    createServer(
      (socket) => void socket.on('error', () => {}).once('data', () => socket.end('HTTP/1.1 403 O\x01dd\r\nContent-Length: 2\r\n\r\nno')),
    ),
  )
  const front = createHttpServer().on('upgrade', (_, socket, head) => {
    const headers = { connection: 'upgrade', upgrade: 'websocket' }
    void passUpgrade({ socket, head, upstream: request({ host: '127.0.0.1', port, headers, agent: false }), headersOf: () => [] })
  })
  const client = connect(await portOf(front), '127.0.0.1')
  client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  expect(await text(client)).toBe('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\nno')
})

test('a client cannot take away the host and the length of its request by naming them in Connection', () => {
  const raw = ['Host', 'a.example', 'Connection', 'host, content-length, x-own', 'Content-Length', '3', 'X-Own', '1', 'Accept', '*/*']
  expect([...endToEndHeaders(raw, 'host, content-length, x-own')].map(([name]) => name)).toEqual(['Host', 'Content-Length', 'Accept'])
})
