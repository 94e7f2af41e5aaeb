import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { refuseInEnvelope, requireHost, SERVER_OPTIONS } from '../src/index.ts'

const HEAD = 'GET / HTTP/1.1\r\nHost: here\r\n'
const started: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of started.splice(0)) await each[Symbol.asyncDispose]()
})

/** A server, and a client that it has accepted. `received` resolves with what has come until the connection ends, or up to `until`. */
const connected = async (options: object) => {
  const server = createServer(
    { ...SERVER_OPTIONS, ...options },
    requireHost((_request, response) => response.end('answered')),
  )
  server.on('upgrade', (_request, socket) => socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n'))
  refuseInEnvelope(server)
  started.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  await Promise.all([once(server, 'connection'), once(client, 'connect')])
  return { client, received: (until?: string) => received(client, until) }
}

const received = async (client: Socket, until?: string): Promise<string> => {
  let text = ''
  for await (const chunk of client.iterator({ destroyOnReturn: false })) {
    text += String(chunk)
    if (until !== undefined && text.includes(until)) break
  }
  return text
}

/** Nothing of this process runs meanwhile, so neither its timers nor what has been received. */
const stall = (ms: number): void => {
  const end = performance.now() + ms
  while (performance.now() < end);
}

const QUICK = { headersTimeout: 1000, connectionsCheckingInterval: 50 }

test('headers that came in time are read, however long the process was stalled', async () => {
  const { client, received } = await connected(QUICK)
  client.write(`${HEAD}\r\n`)
  stall(2000)
  expect(await received('answered')).toMatch(/^HTTP\/1.1 200 /)
})

test('so is an upgrade', async () => {
  const { client, received } = await connected(QUICK)
  client.write(`${HEAD}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
  stall(2000)
  expect(await received('\r\n\r\n')).toMatch(/^HTTP\/1.1 101 /)
})

test.each([
  ['nothing', ''],
  ['the beginning', HEAD],
])('who has sent %s is refused, stalled or not', async (_, sent) => {
  for (const ms of [0, 2000]) {
    const { client, received } = await connected(QUICK)
    client.write(sent)
    stall(ms)
    expect(await received()).toMatch(/^HTTP\/1.1 408 .*TIMEOUT/s)
  }
})

test('the next request on an idle connection is answered, though the process was stalled past the time that clients are told', async () => {
  const { client, received } = await connected({ keepAliveTimeout: 1000 })
  client.write(`${HEAD}\r\n`)
  expect(await received('answered')).toContain('Keep-Alive: timeout=1')
  client.write(`${HEAD}\r\n`)
  stall(3000)
  expect(await received('answered')).toMatch(/^HTTP\/1.1 200 /)
})
