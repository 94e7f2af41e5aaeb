import { connect } from '@boxoffice/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { request } from '../e2e/support/api.ts'
import { API_KEY, type Stack, startStack } from '../e2e/support/stack.ts'
import { connectMcp, createKey } from './support/mcp-connection.ts'

let stack: Stack
let url: string
beforeAll(async () => {
  stack = await startStack({ provider: 'local' })
  url = `${stack.brokerUrl}/mcp`
})
afterAll(() => stack?.[Symbol.asyncDispose]())

const HEADERS = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
const message = (method: string, params: Record<string, unknown>, id?: number): string =>
  JSON.stringify({ jsonrpc: '2.0', method, params, ...(id === undefined ? {} : { id }) })
const INITIALIZE = message('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } }, 0)
const execOf = (command: string, id: number): string =>
  message('tools/call', { name: 'exec', arguments: { command, timeout_sec: 900 } }, id)

/** A host that speaks a revision of 2025 by hand: what it sends with the session id that it has been given. */
const initialize = async (thread: string) => {
  const { headers, status } = await request(url, { method: 'POST', headers: HEADERS, body: INITIALIZE })
  expect(status).toBe(200)
  const sessionId = headers.get('mcp-session-id') ?? expect.fail('no session id')
  const session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session(thread)
  return {
    send: (body: string, init: RequestInit = {}) =>
      fetch(url, { ...init, method: 'POST', body, headers: { ...HEADERS, 'mcp-session-id': sessionId, 'x-boxoffice-thread': thread } }),
    isAlive: async () => (await session.exec('kill -0 $(cat pid)')).exitCode === 0,
  }
}

test('/mcp takes a credential as every other route', async () => {
  for (const authorization of [undefined, 'Bearer bxo_wrong', 'Basic eDp5']) {
    const { authorization: _own, ...others } = HEADERS
    const headers = { ...others, ...(authorization === undefined ? {} : { authorization }) }
    const reply = await request(url, { method: 'POST', headers, body: INITIALIZE })
    expect(reply).toMatchObject({ status: 401, body: { error: { code: 'UNAUTHENTICATED' } } })
    expect(reply.headers.get('www-authenticate')).toBe('Bearer')
  }
  const { authorization: _own, ...others } = HEADERS
  expect(await request(url, { method: 'POST', headers: { ...others, 'x-api-key': API_KEY }, body: INITIALIZE })).toMatchObject({
    status: 200,
  })
})

test('a key that is revoked is refused at once, though its session is known', async () => {
  const key = await createKey(stack.brokerUrl, 'leaver')
  const host = await connectMcp({ transport: 'http', era: 'modern', brokerUrl: stack.brokerUrl, thread: 'leaver', key })
  await host.call('exec', { command: 'true' })
  const { keys } = (await request(`${stack.brokerUrl}/v1/keys`, { headers: HEADERS })).body as { keys: { id: string; principal: string }[] }
  const id = keys.find(({ principal }) => principal === 'leaver')?.id
  expect(await request(`${stack.brokerUrl}/v1/keys/${id}`, { method: 'DELETE', headers: HEADERS })).toMatchObject({ status: 204 })
  await expect(host.client.callTool({ name: 'exec', arguments: { command: 'true' } })).rejects.toThrow(/UNAUTHENTICATED/)
  await host.close()
})

test('what is no message, or too much of one, is refused', async () => {
  const post = (body: string | Uint8Array<ArrayBuffer>) => request(url, { method: 'POST', headers: HEADERS, body })
  expect(await post('{')).toMatchObject({ status: 400, body: { error: { code: 'INVALID_REQUEST' } } })
  expect(await post(new Uint8Array([0x7b, 0xff, 0x7d]))).toMatchObject({ status: 400 })
  expect(await post('[]')).toMatchObject({ status: 400 })
  expect(await post(JSON.stringify(Array.from({ length: 101 }, () => JSON.parse(INITIALIZE))))).toMatchObject({ status: 400 })
  expect(await post('{"hello":1}')).toMatchObject({ status: 400 })
  expect(await post(new Uint8Array(16 * 1024 * 1024 + 1))).toMatchObject({ status: 413, body: { error: { code: 'PAYLOAD_TOO_LARGE' } } })
  expect(await request(url, { headers: { ...HEADERS, accept: 'text/event-stream' } })).toMatchObject({ status: 405 })
  expect(await request(`${url}/other`, { method: 'POST', headers: HEADERS, body: INITIALIZE })).toMatchObject({ status: 404 })
})

test('the thread is named by a header or in the URL, and by one of them', async () => {
  const call = (to: string, headers: Record<string, string> = {}) =>
    request(to, {
      method: 'POST',
      headers: { ...HEADERS, ...headers },
      body: message('tools/call', { name: 'session_info', arguments: {} }, 1),
    })
  expect((await call(url)).text).toContain('INVALID_REQUEST: this connection names no thread')
  expect((await call(`${url}?thread=f%C3%A4den`)).text).toContain('"thread_id":"fäden"')
  expect((await call(`${url}?thread=one`, { 'x-boxoffice-thread': 'one' })).text).toContain('"thread_id":"one"')
  expect(await call(`${url}?thread=one`, { 'x-boxoffice-thread': 'two' })).toMatchObject({ status: 400 })
  expect((await call(`${url}?thread=%20`)).text).toContain('INVALID_REQUEST: thread_id')
})

test('a host that goes ends its command', async () => {
  const host = await initialize('gone')
  const gone = new AbortController()
  const running = host.send(execOf('echo $$ > pid; exec sleep 1000', 1), { signal: gone.signal }).then((response) => response.text())
  running.catch(() => {})
  await expect.poll(host.isAlive).toBe(true)
  gone.abort()
  await expect(running).rejects.toThrow()
  await expect.poll(host.isAlive).toBe(false)
})

test('a cancellation is for the requests of its own session', async () => {
  const [host, other] = [await initialize('mine'), await initialize('theirs')]
  const running = host.send(execOf('echo $$ > pid; exec sleep 1000', 7))
  await expect.poll(host.isAlive).toBe(true)
  const cancel = message('notifications/cancelled', { requestId: 7 })
  expect((await other.send(cancel)).status).toBe(202)
  expect((await host.send(message('notifications/cancelled', { requestId: 8 }))).status).toBe(202)
  // A command after both: had they ended the other, it would have ended by now.
  await host.send(execOf('true', 9)).then((response) => response.text())
  expect(await host.isAlive()).toBe(true)
  expect((await host.send(cancel)).status).toBe(202)
  await expect.poll(host.isAlive).toBe(false)
  await running.then((response) => response.text()).catch(() => {})
})
