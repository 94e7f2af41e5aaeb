import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { NegotiateResponse } from '@boxoffice/protocol'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../../support/test-broker.ts'

/** An agent that says on its connections exactly what a test wants. */
const agent = createServer()
const sockets: Socket[] = []
let answer: (socket: Socket, head: string) => void
let broker: TestBroker
let grant: NegotiateResponse

beforeAll(async () => {
  agent.on('connection', (socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    let head = ''
    socket.on('data', (bytes) => {
      head += String(bytes)
      if (!head.includes('\r\n\r\n')) return
      const whole = head
      head = ''
      answer(socket, whole)
    })
  })
  agent.listen(0, '127.0.0.1')
  await once(agent, 'listening')
  broker = await startTestBroker()
  const { port } = agent.address() as AddressInfo
  await (await broker.startAgent()).register({ dataplane_url: `http://127.0.0.1:${port}` })
  grant = await broker.ensure('thread', { relay: 'always' })
})
afterAll(async () => {
  await broker.stop()
  for (const socket of sockets) socket.destroy()
  agent.close()
})
beforeEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})

const ask = (path = 'x', init: RequestInit = {}) =>
  fetch(`${broker.url}/v1/sandbox/relay/${grant.session_id}/v1/${path}`, { ...init, headers: { authorization: `Bearer ${grant.token}` } })
const says = (body: string, headers = '') => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n${headers}\r\n${body}`

test('one connection serves one request after the other', async () => {
  answer = (socket) => void socket.write(says('hello'))
  for (let i = 0; i < 5; i++) expect(await (await ask()).text()).toBe('hello')
  expect(sockets).toHaveLength(1)
})

test.each([
  ['says close', says('hello', 'connection: close\r\n')],
  ['says that it keeps connections for a second', says('hello', 'keep-alive: timeout=1\r\n')],
])('an agent that %s gets no second request on a connection', async (_name, text) => {
  answer = (socket) => void socket.write(text)
  expect(await (await ask()).text()).toBe('hello')
  expect(await (await ask()).text()).toBe('hello')
  expect(sockets).toHaveLength(2)
})

test('what comes behind an answer is nobody’s', async () => {
  answer = (socket) => void socket.write(says('hello') + says('not for you'))
  await expect(ask().then((response) => response.text())).rejects.toThrow()
  answer = (socket) => void socket.write(says('for you'))
  expect(await (await ask()).text()).toBe('for you')
})

test('what comes on a kept connection before anything was asked is nobody’s', async () => {
  answer = (socket) => void socket.write(says('hello'))
  await (await ask()).text()
  const [kept] = sockets as [Socket]
  kept.write(says('not for you'))
  await once(kept, 'close')
  expect(await (await ask()).text()).toBe('hello')
  expect(sockets).toHaveLength(2)
})

test('a client that leaves in the middle of its answer takes that connection with it, and no other', async () => {
  answer = (socket, head) => void socket.write(head.includes('/long') ? says('a'.repeat(100)).slice(0, -50) : says('hello'))
  const aborter = new AbortController()
  const long = await ask('long', { signal: aborter.signal })
  const [left] = sockets as [Socket]
  expect(await (await ask()).text()).toBe('hello')
  aborter.abort()
  await once(left, 'close')
  await expect(long.text()).rejects.toThrow()
  expect(await (await ask()).text()).toBe('hello')
  expect(sockets).toHaveLength(2)
})

test('an answer before the whole body has come ends the connection', async () => {
  answer = (socket) => void socket.write(says('enough'))
  const endless = new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(1000)),
  })
  const asked = ask('x', { method: 'POST', body: endless, duplex: 'half' } as RequestInit)
  const response = await asked
  expect(response.status).toBe(200)
  const [used] = sockets as [Socket]
  if (!used.destroyed) await once(used, 'close')
  await response.body?.cancel()
})
