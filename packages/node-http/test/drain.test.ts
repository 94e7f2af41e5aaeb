import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, test } from 'vitest'
import { drainable } from '../src/index.ts'

let server: Server
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

/** A server that listens, what closes it, and a way to connect. */
const serving = async (listener: RequestListener, withinMs = 60_000) => {
  server = createServer(listener)
  const drain = drainable(server, 'connection', withinMs)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const open = async (): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1')
    await Promise.all([once(socket, 'connect'), once(server, 'connection')])
    return socket
  }
  return { drain, open }
}
const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

describe('[2.14] a server that closes', () => {
  test('ends connections on which nothing was ever asked, and those that are at rest', async () => {
    const { drain, open } = await serving((_, response) => void response.end('ok'))
    const [silent, used] = [await open(), await open()]
    used.write(request)
    await once(used, 'data')
    const ends = [silent, used].map((socket) => once(socket.resume(), 'end'))
    await drain()
    await Promise.all(ends)
  })

  test('answers what is in flight, and then ends', async () => {
    const asked = Promise.withResolvers<() => void>()
    const { drain, open } = await serving((_, response) => asked.resolve(() => response.end('late')))
    const socket = await open()
    socket.write(request)
    const answer = await asked.promise
    const drained = drain()
    const received = text(socket)
    answer()
    await drained
    expect(await received).toMatch(/late/)
  })

  test('cuts what takes longer than it may', async () => {
    const asked = Promise.withResolvers<void>()
    const { drain, open } = await serving(() => asked.resolve(), 50)
    const socket = await open()
    socket.on('error', () => {})
    socket.write(request)
    await asked.promise
    const closed = once(socket.resume(), 'close')
    await drain()
    await closed
  })

  test('that has never listened has nothing to close', async () => {
    server = createServer()
    await drainable(server, 'connection', 1000)()
  })
})
