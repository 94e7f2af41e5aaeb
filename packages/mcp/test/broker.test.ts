import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Client, InMemoryTransport, ProtocolError } from '@modelcontextprotocol/client'
import { McpServer } from '@modelcontextprotocol/server'
import { test as base, expect } from 'vitest'
import { z } from 'zod'
import { type BrokerOptions, mountEnvironment } from '../src/index.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => void
type Request = { line: string; headers: IncomingMessage['headers']; body: string }
type Broker = {
  url: string
  requests: Request[]
  serve: (handler: Handler) => void
  answer: (status: number, body?: unknown, headers?: Record<string, string>) => void
}
type Call = (method: string, params: Record<string, unknown>, options?: { signal?: AbortSignal }) => Promise<unknown>
type Mount = (options?: Partial<BrokerOptions>, onerror?: (error: Error) => void) => Promise<Call>

const SESSION = {
  session_id: 'ssn_1',
  thread_id: 't1',
  sandbox: { id: 'sb_1', provider: 'fake', http_base_url: 'http://127.0.0.1:1/v1', ws_base_url: 'ws://127.0.0.1:1/v1' },
  token: 'e30.e30.c2ln',
  expires_at: '2030-01-01T00:00:00Z',
}

const BINDING = {
  id: 'ssn_1',
  scope: { type: 'thread', id: 't1' },
  sandbox_id: 'sb_1',
  provider: 'fake',
  state: 'active',
  lease_expires_at: '2030-01-01T00:00:00Z',
  created_at: '2029-12-31T23:00:00.000Z',
  profile: 'default',
  isolation: null,
  labels: {},
  generation: 1,
  reason: null,
}

const test = base.extend<{ broker: Broker; mount: Mount }>({
  // biome-ignore lint/correctness/noEmptyPattern: vitest reads the names of the fixtures from this pattern
  broker: async ({}, use) => {
    const requests: Request[] = []
    let handler: Handler = (_request, response) => response.destroy()
    const server = createServer(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      requests.push({ line: `${request.method} ${request.url}`, headers: request.headers, body })
      handler(request, response)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = address !== null && typeof address === 'object' ? address.port : 0
    const serve = (next: Handler): void => {
      handler = next
    }
    const answer: Broker['answer'] = (status, body, headers = {}) =>
      serve((_request, response) => response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body)))
    await use({ url: `http://127.0.0.1:${port}`, requests, serve, answer })
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  },
  mount: async ({ broker }, use) => {
    const clients: Client[] = []
    await use(async (options = {}, onerror) => {
      const server = new McpServer({ name: 'test', version: '1' })
      if (onerror !== undefined) server.server.onerror = onerror
      mountEnvironment(server, { brokerUrl: broker.url, credential: () => 'key', ...options })
      const client = new Client({ name: 'test', version: '1' })
      clients.push(client)
      const [here, there] = InMemoryTransport.createLinkedPair()
      await Promise.all([server.connect(there), client.connect(here)])
      return (method, params, { signal } = {}) => client.request({ method, params }, z.looseObject({}), { ...(signal && { signal }) })
    })
    for (const client of clients) await client.close()
  },
})

const refusal = async (work: Promise<unknown>): Promise<ProtocolError> => {
  const error = await work.then(
    () => expect.fail('was not refused'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ProtocolError)) throw error
  return error
}

test('what HTTP says in the head is in the params; fields of a newer broker go on to it', async ({ broker, mount }) => {
  broker.answer(200, { ...SESSION, future: { answer: 1 } })
  const call = await mount({ brokerUrl: `${broker.url}/prefix/` })
  const params = { thread_id: 't1', mode: 'ensure', future: { request: 1 }, idempotency_key: 'k1', wait_seconds: 7 }
  expect(await call('environment/acquire', params)).toMatchObject({ session_id: 'ssn_1', future: { answer: 1 } })
  const [{ line, headers, body } = expect.fail('nothing was sent')] = broker.requests
  expect(line).toBe('POST /prefix/v1/sandbox/sessions')
  expect(headers).toMatchObject({ authorization: 'Bearer key', 'idempotency-key': 'k1', prefer: 'wait=7' })
  expect(JSON.parse(body)).toEqual({ thread_id: 't1', mode: 'ensure', future: { request: 1 } })
})

test('a session id stays one part of the path', async ({ broker, mount }) => {
  broker.answer(204)
  const call = await mount()
  await call('environment/release', { session_id: '../keys?a#b', keep_workspace: true })
  expect(broker.requests).toMatchObject([{ line: 'DELETE /v1/sandbox/sessions/..%2Fkeys%3Fa%23b?keep_workspace=true' }])
})

test('the fields of a body go on without the session_id, which is in the path', async ({ broker, mount }) => {
  const actor = { type: 'human', id: 'u1' }
  const call = await mount()
  broker.answer(200, { token: SESSION.token, expires_at: SESSION.expires_at })
  await call('environment/refresh', { session_id: 'ssn_1', actor })
  broker.answer(200, { binding: BINDING, lease_expires_at: BINDING.lease_expires_at })
  expect(await call('environment/heartbeat', { session_id: 'ssn_1' })).toMatchObject({ lease_expires_at: BINDING.lease_expires_at })
  expect(broker.requests.map(({ line, body }) => [line, JSON.parse(body)])).toEqual([
    ['POST /v1/sandbox/sessions/ssn_1/refresh', { actor }],
    ['POST /v1/sandbox/sessions/ssn_1/heartbeat', {}],
  ])
})

test('a refusal that passes is retryable and says when', async ({ broker, mount }) => {
  const error = { code: 'SANDBOX_STARTING', message: 'starting', retryable: true, request_id: 'req_1', details: { state: 'provisioning' } }
  broker.answer(423, { error, detail: 'starting' }, { 'retry-after': '2' })
  const call = await mount()
  expect(await refusal(call('environment/acquire', { thread_id: 't1', mode: 'ensure' }))).toMatchObject({
    code: -31_423,
    message: 'starting',
    data: { error, detail: 'starting', status: 423, retry_after: 2 },
  })
})

test('a broker that is away, or something else in its place, is BACKEND_UNAVAILABLE', async ({ broker, mount }) => {
  const call = await mount()
  const acquire = () => refusal(call('environment/acquire', { thread_id: 't1', mode: 'get' }))
  const unavailable = { code: -31_503, data: { error: { code: 'BACKEND_UNAVAILABLE', retryable: true } } }
  expect(await acquire()).toMatchObject(unavailable)
  broker.answer(502, '<h1>Bad gateway</h1>')
  expect(await acquire()).toMatchObject({ ...unavailable, message: expect.stringContaining('502') })
  broker.answer(307, '', { location: `${broker.url}/elsewhere` })
  expect(await acquire()).toMatchObject(unavailable)
  expect(broker.requests.map(({ line }) => line)).not.toContain('POST /elsewhere')
})

test('an answer outside the contract is a defect, and shows nothing of itself', async ({ broker, mount }) => {
  broker.answer(200, { token: 'secret' })
  const reported: Error[] = []
  const call = await mount({}, (error) => reported.push(error))
  const error = await refusal(call('environment/refresh', { session_id: 'ssn_1' }))
  expect(error).toMatchObject({ code: -32_603, data: { error: { code: 'INTERNAL' } } })
  expect(JSON.stringify(error.data)).not.toContain('secret')
  expect(reported.map(({ message }) => message)).toEqual([expect.stringContaining('/refresh')])
})

test.each(['', 'two words', 'line\nbreak', 'ключ'])('a credential that no header can carry is refused unseen: %j', async (credential) => {
  const server = new McpServer({ name: 'test', version: '1' })
  mountEnvironment(server, { brokerUrl: 'http://127.0.0.1:1', credential: () => credential })
  const client = new Client({ name: 'test', version: '1' })
  const [here, there] = InMemoryTransport.createLinkedPair()
  await Promise.all([server.connect(there), client.connect(here)])
  const error = await refusal(client.request({ method: 'environment/refresh', params: { session_id: 's' } }, z.looseObject({})))
  expect(error).toMatchObject({ code: -31_401, data: { error: { code: 'UNAUTHENTICATED' } } })
  if (credential !== '') expect(JSON.stringify([error.message, error.data])).not.toContain(credential)
  await client.close()
})

test('a caller who gives up ends the request at the broker', async ({ broker, mount }) => {
  const [arrived, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  broker.serve((_request, response) => {
    response.on('close', () => ended.resolve())
    arrived.resolve()
  })
  const call = await mount()
  const stop = new AbortController()
  const work = call('environment/acquire', { thread_id: 't1', mode: 'ensure' }, { signal: stop.signal })
  work.catch(() => {}) // looked at below, after the request has arrived
  await arrived.promise
  stop.abort()
  await ended.promise
  await expect(work).rejects.toThrow()
})

test('a broker URL that is none is refused at once', () => {
  const server = new McpServer({ name: 'test', version: '1' })
  expect(() => mountEnvironment(server, { brokerUrl: 'localhost:7070', credential: () => 'key' })).toThrow(/brokerUrl: /)
})
