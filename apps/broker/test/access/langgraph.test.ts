import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startServer } from '../support/server.ts'
import { type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'
import { startThreadServer } from '../support/thread-server.ts'

let threads: Awaited<ReturnType<typeof startThreadServer>>
let broker: TestBroker
beforeEach(async () => {
  threads = await startThreadServer()
  broker = await startTestBroker({ authorizer: 'langgraph', authorizerUrl: threads.url })
  await broker.startAgent()
})
afterEach(async () => {
  await broker.stop()
  await threads.close()
})

type User = Awaited<ReturnType<TestBroker['principal']>>
const shared = async (thread: string, ...names: string[]) => {
  const users = await Promise.all(names.map((name) => broker.principal(name)))
  threads.share(thread, ...users.map(({ key }) => key))
  return users as [User, User, ...User[]]
}

describe("[C-01] the thread's own server decides who may use its sandbox", () => {
  test('it is asked with the credential of the caller, by the header that it came by', async () => {
    const [alice] = await shared('t1', 'alice')
    await alice.ensure('t1')
    const { body } = await alice.refused({ thread_id: 't2', mode: 'ensure' })
    expect(body.error.code).toBe('FORBIDDEN')
    expect(threads.received.map(({ method, path, headers }) => [method, path, headers.authorization])).toEqual([
      ['GET', '/threads/t1', `Bearer ${alice.key}`],
      ['GET', '/threads/t2', `Bearer ${alice.key}`],
    ])
    const byHeader = await fetch(`${broker.url}/v1/sandbox/sessions`, {
      method: 'POST',
      headers: { 'x-api-key': alice.key, 'content-type': 'application/json' },
      body: '{"thread_id":"t1","mode":"ensure"}',
    })
    expect(byHeader.status).toBe(200)
    expect(threads.received[2]?.headers['x-api-key']).toBe(alice.key)
    expect(threads.received[2]?.headers.authorization).toBeUndefined()
  })

  test('A2 without a grant there: 403; with one: 200 and the same sandbox; who was first is the owner', async () => {
    const [alice, carol] = await shared('t', 'alice', 'carol')
    const bob = await broker.principal('bob')
    const made = await alice.ensure('t')
    expect((await bob.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(403)
    expect((await carol.ensure('t')).sandbox.id).toBe(made.sandbox.id)
    expect((await carol.release(made.session_id)).status).toBe(403)
    expect((await alice.release(made.session_id)).status).toBe(204)
  })

  test('two that may, at once: one session, and both get it', async () => {
    const users = await shared('t', ...Array.from({ length: 8 }, (_, i) => `user-${i}`))
    const made = await Promise.all(users.map((user) => user.ensure('t')))
    expect(new Set(made.map(({ session_id }) => session_id)).size).toBe(1)
  })

  test.each([401, 403, 404, 400, 422])('%i there is 403 here, and nothing is made', async (status) => {
    const alice = await broker.principal('alice')
    threads.state.status = status
    const { status: answered, body } = await alice.refused({ thread_id: 't', mode: 'ensure' })
    expect([answered, body.error.code]).toEqual([403, 'FORBIDDEN'])
    expect((await broker.get<{ sessions: unknown[] }>('/v1/sandbox/sessions')).body.sessions).toEqual([])
  })

  test('access that is lost there is lost here when the cached answer is a minute old: refresh 403', async () => {
    const [alice, bob] = await shared('t', 'alice', 'bob')
    await alice.ensure('t')
    const made = await bob.ensure('t')
    threads.unshare('t', bob.key)
    await broker.advance(59_000)
    expect((await bob.refresh(made.session_id)).status).toBe(200)
    await broker.advance(2_000)
    expect((await bob.refresh(made.session_id)).status).toBe(403)
    expect((await alice.refresh(made.session_id)).status).toBe(200)
  })

  test('a no is asked again after 5 s: who has just been let in does not wait a minute', async () => {
    const alice = await broker.principal('alice')
    expect((await alice.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(403)
    threads.share('t', alice.key)
    expect((await alice.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(403)
    await broker.advance(5_001)
    await alice.ensure('t')
  })

  test('forty requests ask once', async () => {
    const [alice] = await shared('t', 'alice')
    await Promise.all(Array.from({ length: 20 }, () => alice.ensure('t')))
    for (let i = 0; i < 20; i++) await alice.ensure('t')
    expect(threads.received).toHaveLength(1)
  })

  test('another credential of the same principal is asked about for itself', async () => {
    const [alice] = await shared('t', 'alice')
    const second = await broker.principal('alice')
    await alice.ensure('t')
    expect((await second.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(403)
  })

  test('an owner may give up a thread that its server has forgotten already', async () => {
    const [alice] = await shared('t', 'alice')
    await alice.ensure('t')
    threads.delete('t')
    await broker.advance(61_000)
    expect((await alice.refused({ thread_id: 't', mode: 'get' })).status).toBe(403)
    expect((await alice.delete('/v1/sandbox/threads/t')).status).toBe(204)
  })

  test("a named member needs no account there; its key goes there no more than an operator's", async () => {
    const [alice] = await shared('t', 'alice')
    const made = await alice.ensure('t')
    const robot = await broker.principal('robot', { actor_type: 'agent' })
    expect((await robot.refused({ thread_id: 't', mode: 'get' })).status).toBe(403)
    expect((await alice.send('PUT', `/v1/sandbox/sessions/${made.session_id}/members`, { principals: ['robot'] })).status).toBe(200)
    const before = threads.received.length
    expect((await robot.ensure('t')).sandbox.id).toBe(made.sandbox.id)
    expect((await broker.ensure('t')).sandbox.id).toBe(made.sandbox.id)
    expect(threads.received).toHaveLength(before)
  })

  test('scopes that are no threads are claimed as usual, without a question', async () => {
    const [alice, bob] = [await broker.principal('alice'), await broker.principal('bob')]
    const scope = { scope: { type: 'workspace', id: 'w' }, mode: 'ensure' }
    expect((await alice.negotiate(scope)).status).toBe(200)
    expect((await bob.refused(scope)).status).toBe(403)
    expect(threads.received).toEqual([])
  })

  test.each(['.', '..'])('the thread %s is none: its path would be another', async (thread) => {
    const alice = await broker.principal('alice')
    expect((await alice.refused({ thread_id: thread, mode: 'ensure' })).status).toBe(403)
    expect(threads.received).toEqual([])
  })

  test('an id with every awkward character is one segment of the path', async () => {
    const id = 'a/b?c#d%2Fe é\\..'
    const [alice] = await shared(id, 'alice')
    await alice.ensure(id)
    expect(threads.received[0]?.path).toBe(`/threads/${encodeURIComponent(id)}`)
  })
})

describe('[C-01] it fails closed: 503, retryable, and nothing is made', () => {
  const requireUnavailable = async (who: { refused: TestBroker['refused'] }) => {
    const { status, body, headers } = await who.refused({ thread_id: 't', mode: 'ensure' })
    expect([status, body.error.code, body.error.aliases, body.error.retryable]).toEqual([
      503,
      'PROVIDER_UNAVAILABLE',
      ['BACKEND_UNAVAILABLE'],
      true,
    ])
    expect(headers.get('retry-after')).toMatch(/^\d+$/)
    expect((await broker.get<{ sessions: unknown[] }>('/v1/sandbox/sessions')).body.sessions).toEqual([])
    return body.error.message
  }

  test.each([500, 502, 301, 302, 307, 204, 429])('it answers %i', async (status) => {
    const [alice] = await shared('t', 'alice')
    threads.state.status = status
    await requireUnavailable(alice)
    threads.state.status = null
    await alice.ensure('t')
  })

  test('it is gone; its address is not told', async () => {
    const [alice] = await shared('t', 'alice')
    await threads.close()
    const message = await requireUnavailable(alice)
    expect(message).not.toContain(new URL(threads.url).port)
  })

  test('a hanging one is cut off when its time is over', async () => {
    const cut = await startTestBroker({ authorizer: 'langgraph', authorizerUrl: threads.url, authorizerTimeoutMs: 150 })
    const agent = await cut.startAgent()
    const alice = await cut.principal('alice')
    threads.share('t', alice.key)
    threads.state.hang = true
    const { status, body } = await alice.refused({ thread_id: 't', mode: 'ensure' })
    expect([status, body.error.aliases]).toEqual([503, ['BACKEND_UNAVAILABLE']])
    expect(agent.created).toBe(0)
    threads.state.hang = false
    await alice.ensure('t')
    await cut.stop()
  })

  test('an answer that begins and does not end is cut off too', async () => {
    const half = await startServer((_, response) => void response.writeHead(200).write('{"thread_id":"t",'))
    const cut = await startTestBroker({ authorizer: 'langgraph', authorizerUrl: half.url, authorizerTimeoutMs: 150 })
    await cut.startAgent()
    const alice = await cut.principal('alice')
    expect((await alice.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(503)
    await cut.stop()
    await half.close()
  })

  test.each([
    ['a page for everybody', '<!doctype html>'],
    ['null', 'null'],
    ['another thread', '{"thread_id":"other"}'],
  ])('200 with %s lets nobody in', async (_, text) => {
    const page = await startServer((_call, response) => void response.writeHead(200).end(text))
    const other = await startTestBroker({ authorizer: 'langgraph', authorizerUrl: page.url })
    await other.startAgent()
    const alice = await other.principal('alice')
    expect((await alice.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(503)
    await other.stop()
    await page.close()
  })

  test('[C-60] a redirect is not followed, with or without the credential', async () => {
    const trap = await startServer((_, response) => void response.end())
    const away = await startServer((_, response) => void response.writeHead(302, { location: `${trap.url}/threads/t` }).end())
    const other = await startTestBroker({ authorizer: 'langgraph', authorizerUrl: away.url })
    await other.startAgent()
    const alice = await other.principal('alice')
    expect((await alice.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(503)
    expect([away.received.length, trap.received.length]).toEqual([1, 0])
    await other.stop()
    await Promise.all([trap.close(), away.close()])
  })
})

test('[C-04] threads of other tenants are other threads: each asks for itself, none sees the other', async () => {
  const [alice] = await shared('t', 'alice')
  const far = await broker.principal('alice', { tenant: 'island' })
  threads.share('t', far.key)
  const [mine, theirs] = [await alice.ensure('t'), await far.ensure('t')]
  expect(mine.session_id).not.toBe(theirs.session_id)
  expect((await far.read<Refusal>(mine.session_id)).status).toBe(404)
})
