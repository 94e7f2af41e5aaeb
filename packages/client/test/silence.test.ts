import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { ConnectionError, connect, type Session, SilenceError } from '../src/index.ts'
import { API_KEY, FakeServer } from './fixture/fake-server.ts'
import { pattern } from './fixture/server-test.ts'

/** Accepts connections, reads what comes, and never says a word. */
const startSilentServer = async () => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.resume()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A session whose direct way leads to `host`; the broker has a relay for it, or none. */
const sessionAt = async (server: FakeServer, host: string, { relay = false, requestTimeoutMs = 1_500 } = {}): Promise<Session> => {
  const found = server.intercept
  server.intercept = (request) => {
    if (request.path !== '/v1/sandbox/sessions' || request.method !== 'POST') return found?.(request)
    const asked = JSON.parse(request.body.toString()) as { relay?: string }
    const negotiated = server.negotiated('thread-1')
    const relayed = asked.relay === 'always'
    const { http_base_url, ws_base_url } = negotiated.sandbox
    const at = relayed
      ? { http_base_url, ws_base_url, mode: 'relay' }
      : { http_base_url: `http://${host}/v1`, ws_base_url: `ws://${host}/v1`, mode: 'direct' }
    if (relayed && !relay) return { status: 404, json: {} }
    return { json: full({ ...negotiated, sandbox: { ...negotiated.sandbox, ...at } }, at) }
  }
  return await server.client({ requestTimeoutMs, reconnectWindowMs: 500 }).session('thread-1')
}

const full = (negotiated: ReturnType<FakeServer['negotiated']>, dataplane: object) => ({
  ...{ ...negotiated, dataplane, token_type: 'Bearer', warnings: [] },
  credentials: { token_type: 'Bearer', access_token: negotiated.token, expires_at: negotiated.expires_at, granted_capabilities: [] },
  binding: {
    ...{ id: negotiated.session_id, scope: { type: 'thread', id: 'thread-1' }, sandbox_id: 'sb_1', provider: 'fake', state: 'active' },
    ...{ lease_expires_at: null, created_at: negotiated.expires_at, profile: 'default', isolation: 'none', labels: {}, generation: 1 },
    reason: null,
  },
  policy: { idle_timeout_seconds: 1, hard_ttl_seconds: 1, lease_seconds: 1, stop_after_seconds: 1, on_lease_expiry: 'suspend' },
})

async function* chunks() {
  yield pattern(1000)
}

const CALLS: Record<string, (session: Session) => Promise<unknown>> = {
  exec: (session) => session.exec('true'),
  'exec.start': (session) => session.exec.start('true'),
  'exec.list': (session) => session.exec.list(),
  'exec.output': (session) => session.exec.output('run-1'),
  'exec.kill': (session) => session.exec.kill('run-1'),
  shell: (session) => session.shell(),
  'processes.start': (session) => session.processes.start('true'),
  'processes.list': (session) => session.processes.list(),
  'processes.stop': (session) => session.processes.stop('p'),
  'processes.attach': (session) => session.processes.attach('p'),
  'files.list': (session) => session.files.list(),
  'files.stat': (session) => session.files.stat('a'),
  'files.text': (session) => session.files.text('a'),
  'files.stream': (session) => session.files.stream('a'),
  'files.mkdir': (session) => session.files.mkdir('a'),
  'files.move': (session) => session.files.move('a', 'b'),
  'files.delete': (session) => session.files.delete('a'),
  'files.upload': (session) => session.files.upload('a', 'x'),
  'files.upload of a stream': (session) => session.files.upload('a', chunks()),
  'files.uploadArchive': (session) => session.files.uploadArchive('a', 'x'),
  'files.downloadArchive': (session) => session.files.downloadArchive('.'),
}

describe('a server that accepts connections and says nothing', () => {
  test('as a sandbox: every call rejects with a ConnectionError, and requests with SilenceError', async () => {
    await using silent = await startSilentServer()
    await using server = await FakeServer.start()
    const session = await sessionAt(server, silent.host)
    const errors = await Promise.all(
      Object.entries(CALLS).map(async ([name, call]) => [name, await call(session).catch((error: unknown) => error)] as const),
    )
    for (const [name, error] of errors) {
      expect([name, error]).toEqual([name, expect.any(ConnectionError)])
      expect(error).toMatchObject({ code: 'CONNECTION_FAILED', retryable: true })
      if (/files|list|exec\.kill/.test(name)) expect([name, error]).toEqual([name, expect.any(SilenceError)])
    }
  })

  test('as a broker: negotiating, events and keys reject with SilenceError', async () => {
    await using silent = await startSilentServer()
    const client = connect(`http://${silent.host}`, { apiKey: API_KEY, requestTimeoutMs: 300, reconnectWindowMs: 500 })
    const calls = [client.session('thread-1'), client.sessions.list(), client.keys.list(), client.sessions.release('ssn_1')]
    for (const answer of await Promise.allSettled(calls)) expect(answer).toMatchObject({ reason: expect.any(SilenceError) })
    client.close()
  })

  test('as a sandbox that the broker has a relay for: everything goes on through the relay', async () => {
    await using silent = await startSilentServer()
    const changes = {
      mkdir: ({ files }) => files.mkdir('a'),
      move: ({ files }) => files.move('a', 'b'),
      delete: ({ files }) => files.delete('a'),
      upload: ({ files }) => files.upload('a', 'x'),
      uploadArchive: ({ files }) => files.uploadArchive('a', 'x'),
    } satisfies Record<string, (session: Session) => Promise<unknown>>
    await Promise.all(
      Object.entries(changes).map(async ([name, change]) => {
        await using server = await FakeServer.start()
        server.intercept = ({ path }) =>
          path.startsWith('/sandboxes/sb_1/v1/files') ? { json: { path: 'a', size: 1, created: true } } : undefined
        const session = await sessionAt(server, silent.host, { relay: true, requestTimeoutMs: 2_000 })
        await change(session)
        const asked = server.requests.filter(({ path }) => path.includes('/files'))
        expect([name, session.mode, asked.length]).toEqual([name, 'relay', 1])
      }),
    )
  })
})

test('a server that is slow and answers other requests is waited for', async () => {
  await using server = await FakeServer.start()
  server.intercept = async ({ path }) => {
    if (path.endsWith('/ping')) return { status: 204 }
    if (!path.includes('/files')) return undefined
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    return { json: { path: 'a', type: 'file', size: 1, mtime: '2026-11-22T00:00:00Z', mode: '0644' } }
  }
  const session = await server.client({ requestTimeoutMs: 1_500 }).session('thread-1')
  expect(await session.files.exists('a')).toBe(true)
  expect(server.count('GET', '/sandboxes/sb_1/v1/files')).toBe(1)
  expect(server.count('GET', '/sandboxes/sb_1/v1/ping')).toBeGreaterThan(2)
})

test('a body that goes silent while it is read ends with SilenceError; a reader that takes its time does not matter', async () => {
  await using server = await FakeServer.start()
  const bytes = pattern(1000)
  const whole = { bytes, headers: { 'content-length': '1000', etag: '"1"' } }
  let stalls = true
  server.intercept = ({ path }) => (path.includes('/files/download') ? (stalls ? { ...whole, stallAfter: 300 } : whole) : undefined)
  const { files } = await server.client({ requestTimeoutMs: 1_500, reconnectWindowMs: 100 }).session('thread-1')
  const { stream } = await files.downloadArchive('.')
  await expect(new Response(stream).arrayBuffer()).rejects.toBeInstanceOf(SilenceError)
  await expect(files.download('a')).rejects.toBeInstanceOf(SilenceError)
  stalls = false
  const slow = await files.stream('a')
  await new Promise((resolve) => setTimeout(resolve, 4_000))
  expect(new Uint8Array(await new Response(slow.stream).arrayBuffer())).toEqual(bytes)
})

test('a stream that nothing was read of goes up through the relay', async () => {
  await using server = await FakeServer.start()
  server.intercept = ({ path }) => (path.includes('/files/upload') ? { json: { path: 'a', size: 1, created: true } } : undefined)
  const closed = await startSilentServer()
  const { host } = closed
  await closed[Symbol.asyncDispose]()
  const session = await sessionAt(server, host, { relay: true, requestTimeoutMs: 10_000 })
  await session.files.upload('a', chunks())
  await session.files.upload('a', new Blob([pattern(1000)]).stream())
  const bodies = server.requests.filter(({ path }) => path.includes('/files/upload')).map(({ body }) => body)
  expect([session.mode, bodies.every((body) => body.equals(pattern(1000))), bodies.length]).toEqual(['relay', true, 2])
})

test('a time that is none is refused', () => {
  for (const requestTimeoutMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY])
    expect(() => connect('http://127.0.0.1', { apiKey: API_KEY, requestTimeoutMs })).toThrow('requestTimeoutMs: must be a number above 0')
})
