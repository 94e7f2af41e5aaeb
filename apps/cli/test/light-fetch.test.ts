import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { lightFetch } from '../src/network/light-fetch.ts'

let server: Server
let url: string
let answer: RequestListener

beforeAll(async () => {
  server = createServer((incoming, outgoing) => answer(incoming, outgoing)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/path`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

test('sends a body with its length and gives status, headers and text', async () => {
  let seen: unknown
  answer = async (incoming, outgoing) => {
    const { method, headers } = incoming
    seen = { method, length: headers['content-length'], key: headers.authorization, body: await text(incoming) }
    outgoing.writeHead(429, { 'Retry-After': '7' }).end('wäit')
  }
  const answered = await lightFetch(url, { method: 'POST', headers: { authorization: 'k' }, body: '"ä"' })
  expect(seen).toEqual({ method: 'POST', length: '4', key: 'k', body: '"ä"' })
  expect([answered.ok, answered.status, answered.url, answered.headers.get('Retry-After')]).toEqual([false, 429, url, '7'])
  expect(await answered.text()).toBe('wäit')
})

test('gives its body piece by piece, as the SDK reads it', async () => {
  answer = (_, outgoing) => outgoing.writeHead(200).end('wäit')
  const reader = (await lightFetch(url)).body?.getReader()
  const pieces: Uint8Array[] = []
  for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) pieces.push(part.value)
  expect(Buffer.concat(pieces).toString()).toBe('wäit')
})

test('follows no redirect, which would take the credential along', async () => {
  answer = (_, outgoing) => outgoing.writeHead(307, { Location: url }).end()
  await expect(lightFetch(url)).rejects.toMatchObject({ name: 'TypeError', cause: { message: 'unexpected redirect' } })
})

test('rejects with what the connection said', async () => {
  const gone = createServer().listen(0, '127.0.0.1')
  await once(gone, 'listening')
  const { port } = gone.address() as AddressInfo
  await new Promise((resolve) => gone.close(resolve))
  await expect(lightFetch(`http://127.0.0.1:${port}`)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
})

test('an abort rejects with its own reason, before and after the head of the answer', async () => {
  const reason = new Error('enough')
  const [before, after] = [new AbortController(), new AbortController()]
  answer = () => before.abort(reason)
  await expect(lightFetch(url, { signal: before.signal })).rejects.toBe(reason)
  answer = (_, outgoing) => outgoing.writeHead(200, { 'Content-Length': '5' }).write('a')
  const reading = (await lightFetch(url, { signal: after.signal })).text()
  after.abort(reason)
  await expect(reading).rejects.toThrow()
})
