import { Hono } from 'hono'
import { expect, test } from 'vitest'
import type { Env } from '../../src/http/env.ts'
import { type Bytes, bind } from '../../src/http/server.ts'

const LOOPBACK = { host: '127.0.0.1', port: 0, maxConnections: 100 }
const noRelay: Bytes = { owns: () => false, handle: () => {}, upgrade: (_request, socket) => socket.destroy() }

test('a request that comes before there is something to answer it waits', async () => {
  const listener = await bind(LOOPBACK)
  const early = fetch(`${listener.localUrl}/early`)
  // Its connection is there before the answer is.
  await fetch(`${listener.localUrl}/gone`, { signal: AbortSignal.timeout(200) }).catch(() => {})
  listener.serve(
    new Hono<Env>().all('*', (c) => c.text(c.req.path)),
    noRelay,
  )
  expect(await (await early).text()).toBe('/early')
  expect(await (await fetch(`${listener.localUrl}/late`)).text()).toBe('/late')
  await listener.close()
})

test('a connection stays open for longer than an agent is between two reports', async () => {
  const listener = await bind(LOOPBACK)
  listener.serve(
    new Hono<Env>().all('*', (c) => c.text('')),
    noRelay,
  )
  expect((await fetch(listener.localUrl)).headers.get('keep-alive')).toBe('timeout=15')
  await listener.close()
})

test('what waits is let go when the start has failed', async () => {
  const listener = await bind(LOOPBACK)
  const early = fetch(listener.localUrl).then(
    () => 'answered',
    () => 'let go',
  )
  await fetch(listener.localUrl, { signal: AbortSignal.timeout(200) }).catch(() => {})
  await listener.close()
  expect(await early).toBe('let go')
})
