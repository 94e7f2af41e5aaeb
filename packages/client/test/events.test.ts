import { describe, expect } from 'vitest'
import type { SessionEvent } from '../src/index.ts'
import { SESSION_ID } from './fixture/fake-server.ts'
import { test } from './fixture/server-test.ts'

const PATH = `/v1/sandbox/sessions/${SESSION_ID}/events`
const header = { session_id: SESSION_ID, ts: '2026-01-02T03:04:05.678Z' }
const block = (id: number | null, event: string, data: object = {}): string =>
  `${id === null ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify({ ...header, ...data })}\n\n`
const exit = { exit_code: 3, signal: null, reason: 'exited', kill_cause: null, oom_killed: false, duration_ms: 7 }
const stream = (text: string) => ({ headers: { 'content-type': 'text/event-stream' }, bytes: new TextEncoder().encode(text) })
const collect = async (events: AsyncIterable<SessionEvent>): Promise<SessionEvent[]> => Array.fromAsync(events)

describe('session.events()', () => {
  test('each kind of event, as the SDK shows it', async ({ server, session }) => {
    const state = { state: 'suspended', previous: 'idle', mode: 'freeze', reason: null }
    const blocks = [
      'retry: 1000\n\n: ping\n\n',
      block(null, 'gap', { from: 1, to: 3 }),
      block(4, 'state', state),
      block(5, 'wake', { from: 'freeze' }),
      block(6, 'of.the.future', { x: 1 }),
      block(7, 'exec.exit', { kind: 'exec', exec_id: 'e1', ...exit }),
      block(8, 'exec.exit', { kind: 'shell', shell_id: 's1', ...exit, exit_code: null, reason: 'sandbox_lost', duration_ms: null }),
      block(9, 'process.exit', { process_id: 'p1', ...exit }),
      block(10, 'lease', { lease_expires_at: '2026-01-02T03:19:05.000Z' }),
      block(11, 'state', { state: 'terminated', previous: 'suspended', mode: null, reason: 'released' }),
      block(12, 'released'),
      block(13, 'wake', { from: 'stop' }),
    ]
    server.intercept = ({ path }) => (path === PATH ? stream(blocks.join('')) : undefined)
    const at = new Date(header.ts)
    const told = { exitCode: 3, signal: null, reason: 'exited', killCause: null, oomKilled: false, durationMs: 7 }
    expect(await collect(session.events())).toEqual([
      { type: 'gap', id: null, from: 1, to: 3 },
      { type: 'state', id: 4, at, ...state },
      { type: 'wake', id: 5, at, from: 'freeze' },
      { type: 'exec.exit', id: 7, at, kind: 'exec', execId: 'e1', ...told },
      { type: 'exec.exit', id: 8, at, kind: 'shell', shellId: 's1', ...told, exitCode: null, reason: 'sandbox_lost', durationMs: null },
      { type: 'process.exit', id: 9, at, processId: 'p1', ...told },
      { type: 'lease', id: 10, at, leaseExpiresAt: new Date('2026-01-02T03:19:05.000Z') },
      { type: 'state', id: 11, at, state: 'terminated', previous: 'suspended', mode: null, reason: 'released' },
      { type: 'released', id: 12, at },
    ])
    expect(server.requests.filter(({ path }) => path === PATH)).toHaveLength(1)
  })

  test('a connection cut anywhere, also inside an event: nothing is lost or repeated', async ({ server, session }) => {
    const COUNT = 40
    const all = [...Array.from({ length: COUNT }, (_, i) => block(i + 1, 'wake', { from: 'stop' })), block(COUNT + 1, 'released')]
    let round = 0
    server.intercept = ({ path, headers }) => {
      if (path !== PATH) return undefined
      const text = all.slice(Number(headers['last-event-id'] ?? 0)).join('')
      // The cut moves through every position of a block, and at times comes before the answer.
      if (++round % 7 === 0) return 'drop'
      return stream(text.slice(0, 300 + 37 * round))
    }
    expect((await collect(session.events())).map(({ id }) => id)).toEqual(Array.from({ length: COUNT + 1 }, (_, i) => i + 1))
    expect(round).toBeGreaterThan(5)
  })

  test('goes on from where the caller was', async ({ server, session }) => {
    server.intercept = ({ path, headers }) => (path === PATH ? stream(block(Number(headers['last-event-id']) + 1, 'released')) : undefined)
    expect(await collect(session.events({ lastEventId: 41 }))).toMatchObject([{ type: 'released', id: 42 }])
  })

  test('204 is an end without events; a session that failed ends it as well', async ({ server, session }) => {
    server.intercept = ({ path }) => (path === PATH ? { status: 204 } : undefined)
    expect(await collect(session.events({ lastEventId: 9 }))).toEqual([])
    const failed = { state: 'failed', previous: 'active', mode: null, reason: 'oom' }
    server.intercept = ({ path }) => (path === PATH ? stream(block(10, 'state', failed)) : undefined)
    expect(await collect(session.events({ lastEventId: 9 }))).toMatchObject([{ state: 'failed', reason: 'oom' }])
  })

  test('a refusal is an error; a broker that is about to stop is asked again', async ({ server, session }) => {
    const refusal = (code: string, retryable: boolean) => ({ error: { code, message: 'no', retryable, request_id: 'req_1' }, detail: 'no' })
    let asked = 0
    server.intercept = ({ path }) => {
      if (path !== PATH) return undefined
      return ++asked === 1
        ? { status: 503, json: refusal('BACKEND_UNAVAILABLE', true) }
        : { status: 403, json: refusal('FORBIDDEN', false) }
    }
    await expect(collect(session.events())).rejects.toMatchObject({ code: 'FORBIDDEN' })
    expect(asked).toBe(2)
  })

  test('a broker that is away for longer than the window ends them', async ({ server }) => {
    const session = await server.client({ reconnectWindowMs: 500 }).session('thread-1')
    server.intercept = ({ path }) => (path === PATH ? 'drop' : undefined)
    await expect(collect(session.events())).rejects.toMatchObject({ code: 'CONNECTION_FAILED' })
    expect(server.requests.filter(({ path }) => path === PATH).length).toBeGreaterThan(1)
  })

  test('ends with the reason of its signal, and when its reader leaves', async ({ server, session }) => {
    server.intercept = ({ path }) => (path === PATH ? stream(block(1, 'wake', { from: 'stop' })) : undefined)
    const aborter = new AbortController()
    const reason = new Error('enough')
    const aborted = (async () => {
      for await (const _ of session.events({ signal: aborter.signal })) aborter.abort(reason)
    })()
    await expect(aborted).rejects.toBe(reason)
    for await (const event of session.events()) {
      expect(event).toMatchObject({ id: 1 })
      break
    }
  })
})
