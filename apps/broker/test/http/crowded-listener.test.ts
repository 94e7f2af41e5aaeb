import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
const sockets: Socket[] = []
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await broker.stop()
})

/** Requests whose bodies do not come, of somebody with a key. Resolves when the broker has read the headers of all of them. */
const holdSlowBodies = async (key: string, count: number, path: string): Promise<Socket[]> => {
  const { hostname, port } = new URL(broker.url)
  const begin = async (): Promise<Socket> => {
    const socket = connect(Number(port), hostname).on('error', () => {})
    sockets.push(socket)
    const head = [`POST ${path} HTTP/1.1`, `Host: ${hostname}`, `Authorization: Bearer ${key}`, 'Content-Type: application/json']
    socket.write(`${[...head, 'Content-Length: 100', 'Expect: 100-continue', '', ''].join('\r\n')}`)
    await once(socket, 'data')
    return socket.resume()
  }
  return Promise.all(Array.from({ length: count }, begin))
}

test.each([
  ['the control API', '/v1/sandbox/sessions'],
  ['Box', '/compat/box/v1/sessions/one'],
])('[2.1] %s: one key with slow bodies has all connections of a listener; others are served all the same', async (_name, path) => {
  broker = await startTestBroker({ maxConnections: 16 })
  const hog = await broker.principal('hog', { rights: ['box'] })
  const other = await broker.principal('other')
  const held = await holdSlowBodies(hog.key, 16, path)
  // Each on a connection of its own.
  for (let i = 0; i < 5; i++) expect((await other.get('/v1/profiles', { connection: 'close' })).status).toBe(200)
  await expect.poll(() => held.filter((socket) => socket.closed).length).toBeGreaterThan(0)
})

test('[3-25, 2.1] the listener of `sbs run`, where nobody authenticates: the oldest of too many connections goes, doubled headers are 400', async () => {
  broker = await startTestBroker({ maxConnections: 16 })
  const steps = await broker.broker.serveSteps({ host: '127.0.0.1', port: 0 })
  try {
    const { hostname, port } = new URL(steps.url)
    const dial = async (): Promise<Socket> => {
      const socket = connect(Number(port), hostname).on('error', () => {})
      sockets.push(socket)
      await once(socket, 'connect')
      return socket
    }
    const held: Socket[] = []
    for (let i = 0; i < 16; i++) held.push((await dial()).resume())
    const next = await dial()
    await expect.poll(() => held.findIndex((socket) => !socket.closed)).toBe(1)
    next.write(`GET /docs HTTP/1.1\r\nHost: ${hostname}\r\nHost: other\r\n\r\n`)
    const [answer] = (await once(next, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 400 /)
    expect((await fetch(`${steps.url}/docs`)).status).toBe(200)
  } finally {
    await steps.close()
  }
})
