import assert from 'node:assert/strict'
import { eventually } from '../../e2e/support/traces.ts'
import { type Case, check } from '../case.ts'
import { claimsOf, refused } from '../expect.ts'
import type { Grant } from '../target.ts'

const UNKNOWN = 'ssn_00000000-0000-4000-8000-000000000000'

/** Contract 2.4, 2.5, 2.8 and 2.10: one session after it was made. */
export const sessionCases: readonly Case[] = [
  check('4-82, C-41, 4-172', 'GET gives the acquire answer with a fresh token, or without one', async (t) => {
    const grant = await t.shared()
    const read = (await t.session('GET', grant.session_id)).body as unknown as Grant
    assert.deepEqual([read.session_id, read.binding.id, read.sandbox.id], [grant.session_id, grant.session_id, grant.sandbox.id])
    assert.notEqual(claimsOf(read.token).jti, claimsOf(grant.token).jti)
    const { body } = await t.session('GET', grant.session_id, '?token=false')
    assert.ok(!('token' in body) && !('credentials' in body))
  }),
  check('4-30, 4-32', 'refresh gives a new token; the old one stays good', async (t) => {
    const grant = await t.shared()
    for (const body of [{}, undefined]) {
      const { status, body: fresh } = await t.session('POST', grant.session_id, '/refresh', { body })
      assert.equal(status, 200)
      assert.deepEqual(Object.keys(fresh).toSorted(), ['expires_at', 'token'])
      assert.notEqual(claimsOf(String(fresh.token)).jti, claimsOf(grant.token).jti)
      for (const token of [grant.token, String(fresh.token)])
        assert.equal((await t.dp(grant, 'POST', '/exec', { token, body: { command: 'true' } })).status, 200)
    }
  }),
  check('4-83, 4-85', 'refresh-token gives credentials that work', async (t) => {
    const grant = await t.shared()
    const { status, body } = await t.session('POST', grant.session_id, '/refresh-token', { body: {} })
    const { credentials, token, expires_at } = body as unknown as Grant
    assert.deepEqual([status, credentials.access_token, credentials.expires_at, credentials.token_type], [200, token, expires_at, 'Bearer'])
    assert.equal((await t.dp(grant, 'POST', '/exec', { token, body: { command: 'true' } })).status, 200)
  }),
  check('4-84', 'heartbeat moves the lease and gives no token; refresh-token leaves the lease alone', async (t) => {
    const { session_id } = await t.ensure({ scope: { type: 'thread', id: t.thread() } })
    const lease = async () =>
      Date.parse(String(((await t.session('GET', session_id, '?token=false')).body.binding as Grant['binding']).lease_expires_at))
    const before = await lease()
    await eventually('a heartbeat moves the lease', async () => {
      const { status, body } = await t.session('POST', session_id, '/heartbeat', { body: {} })
      assert.equal(status, 200)
      assert.deepEqual(Object.keys(body).toSorted(), ['binding', 'lease_expires_at'])
      return Date.parse(String(body.lease_expires_at)) > before
    })
    const moved = await lease()
    await t.session('POST', session_id, '/refresh-token', { body: {} })
    assert.equal(await lease(), moved)
  }),
  check('4-31, 4-35', 'refresh and release: 401 without a credential, 404 for an unknown id', async (t) => {
    const { session_id } = await t.shared()
    refused(await t.session('POST', session_id, '/refresh', { key: null }), 401, 'UNAUTHENTICATED')
    refused(await t.session('DELETE', session_id, '', { key: null }), 401, 'UNAUTHENTICATED')
    refused(await t.session('POST', UNKNOWN, '/refresh'), 404, 'SESSION_NOT_FOUND')
    refused(await t.session('DELETE', UNKNOWN), 404, 'SESSION_NOT_FOUND')
    for (const path of ['/refresh-token', '/heartbeat']) refused(await t.session('POST', UNKNOWN, path), 404, 'BINDING_NOT_FOUND')
    refused(await t.session('GET', UNKNOWN), 404, 'BINDING_NOT_FOUND')
  }),
  check('4-33', 'a session token is no server credential', async (t) => {
    const { session_id, token } = await t.shared()
    refused(await t.session('POST', session_id, '/refresh', { key: token }), 401, 'UNAUTHENTICATED')
  }),
  check('4-34, 4-36, 4-37', 'release: 204, the token dies, the next ensure is a new session', async (t) => {
    const grant = await t.ensure()
    const socket = t.socket(grant, '/exec/ws')
    await socket.frame('auth_ok')
    const gone = await t.release(grant.session_id)
    assert.deepEqual([gone.status, gone.bytes.length], [204, 0])
    refused(await t.release(grant.session_id), 404, 'SESSION_NOT_FOUND')
    await eventually('the token is refused', async () => (await t.exec(grant, 'true')).status === 401)
    refused(await t.exec(grant, 'true'), 401, 'SESSION_RELEASED')
    assert.deepEqual(await socket.failure(), ['SESSION_RELEASED', 4410])
    const next = await t.ensure({ thread_id: grant.thread_id })
    assert.ok(next.session_id !== grant.session_id && next.sandbox.id !== grant.sandbox.id)
  }),
  check('C-25', 'ensure straight after a release does not wait for the old sandbox', async (t) => {
    const grant = await t.ensure()
    await t.release(grant.session_id)
    assert.notEqual((await t.ensure({ thread_id: grant.thread_id })).session_id, grant.session_id)
  }),
  check('C-28', 'release while something runs: its exit is told, then the socket closes 4410', async (t) => {
    const grant = await t.ensure()
    const socket = t.socket(grant, '/exec/ws')
    await socket.start({ command: 'trap "echo bye; exit 7" TERM; echo up; while :; do sleep 0.1; done' })
    await socket.until('the program runs', () => socket.text().includes('up'))
    await t.release(grant.session_id)
    assert.deepEqual(await socket.failure(), ['SESSION_RELEASED', 4410])
    const exit = await socket.frame('exit')
    assert.deepEqual([exit.exit_code, exit.reason, exit.kill_cause], [7, 'killed', 'released'])
  }),
  check('4-11, C-01, C-02, C-04', 'who may use a thread: owner, nobody else of the tenant, nobody of another', async (t) => {
    const [a1, a2, ax] = [await t.keyOf('A1'), await t.keyOf('A2'), await t.keyOf('AX')]
    const grant = await t.ensure({}, a1)
    const again = { thread_id: grant.thread_id, mode: 'ensure' }
    refused(await t.neg(again, { key: a2 }), 403, 'FORBIDDEN')
    refused(await t.session('GET', grant.session_id, '', { key: a2 }), 403, 'FORBIDDEN')
    refused(await t.session('GET', grant.session_id, '', { key: ax }), 404, 'BINDING_NOT_FOUND')
    refused(await t.session('DELETE', grant.session_id, '', { key: ax }), 404, 'SESSION_NOT_FOUND')
    assert.notEqual((await t.ensure({ thread_id: grant.thread_id }, ax)).session_id, grant.session_id)
  }),
  check('C-02', 'of two that race to claim a thread, one owns it', async (t) => {
    const keys = [await t.keyOf('A1'), await t.keyOf('A2')]
    const thread_id = t.thread()
    const both = await Promise.all(keys.map((key) => t.neg({ thread_id, mode: 'ensure' }, { key })))
    assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 403])
  }),
  check('C-01, C-03, C-54', 'a member shares the sandbox under its own name, and may not release it', async (t) => {
    const [a1, a2] = [await t.keyOf('A1'), await t.keyOf('A2')]
    const grant = await t.ensure({}, a1)
    const put = await t.session('PUT', grant.session_id, '/members', { key: a1, body: { principals: [t.principal('A2')] } })
    assert.ok(put.status === 200 || put.status === 204, put.text)
    const member = await t.ensure({ thread_id: grant.thread_id }, a2)
    assert.equal(member.sandbox.id, grant.sandbox.id)
    assert.notEqual(claimsOf(member.token).sub, claimsOf(grant.token).sub)
    refused(await t.session('DELETE', grant.session_id, '', { key: a2 }), 403, 'FORBIDDEN')
    refused(await t.session('PUT', grant.session_id, '/members', { key: a2, body: { principals: [] } }), 403, 'FORBIDDEN')
  }),
  check('C-74', 'deleting a thread ends its session and forgets its owner', async (t) => {
    const [a1, a2] = [await t.keyOf('A1'), await t.keyOf('A2')]
    const grant = await t.ensure({}, a1)
    const path = `/v1/sandbox/threads/${encodeURIComponent(String(grant.thread_id))}`
    assert.equal((await t.call('DELETE', path, { key: a1 })).status, 204)
    assert.notEqual((await t.ensure({ thread_id: grant.thread_id }, a2)).session_id, grant.session_id)
  }),
  check('C-45, C-46', 'codes are named by route and request shape, with the other name beside', async (t) => {
    assert.deepEqual(refused(await t.session('DELETE', UNKNOWN), 404, 'SESSION_NOT_FOUND').aliases, ['BINDING_NOT_FOUND'])
    assert.deepEqual(refused(await t.session('GET', UNKNOWN), 404, 'BINDING_NOT_FOUND').aliases, ['SESSION_NOT_FOUND'])
  }),
  check('4-91, C-51', 'a lease that passes ends the session; work that runs holds it off', async (t) => {
    const [idle, working] = await Promise.all([1, 2].map(() => t.ensure({ profile: 'conformance-lease' })))
    if (idle === undefined || working === undefined) throw new Error('no sessions')
    const socket = t.socket(working, '/exec/ws')
    await socket.start({ command: 'echo up; sleep 60' })
    await socket.until('it runs', () => socket.text().includes('up'))
    await eventually('the unused session ends', async () => (await t.session('GET', idle.session_id, '?token=false')).status === 410)
    assert.equal((await t.session('GET', working.session_id, '?token=false')).status, 200)
    assert.equal((await t.exec(working, 'true')).status, 200)
  }),
  check('4-31, 4-92, C-26', 'the hard TTL ends everything: 410, a new session by scope, closed sockets', async (t) => {
    const grant = await t.ensure({ profile: 'conformance-ttl' })
    assert.ok(claimsOf(grant.token).exp <= claimsOf(grant.token).iat + 6)
    const socket = t.socket(grant, '/exec/ws')
    await socket.start({ command: 'sleep 300' })
    assert.equal((await socket.closed).code, 4410)
    for (const path of ['/refresh', '/refresh-token', '/heartbeat'])
      refused(await t.session('POST', grant.session_id, path, { body: {} }), 410, 'SESSION_EXPIRED')
    refused(await t.session('GET', grant.session_id), 410, 'SESSION_EXPIRED')
    refused(await t.neg({ thread_id: grant.thread_id, mode: 'get' }), 404, 'SESSION_NOT_FOUND')
    assert.notEqual((await t.ensure({ thread_id: grant.thread_id })).session_id, grant.session_id)
    assert.equal((await t.release(grant.session_id)).status, 204)
    refused(await t.release(grant.session_id), 404, 'SESSION_NOT_FOUND')
  }),
  check('C-53, 4-90, C-62', 'an idle session is suspended, its processes wait, and any request wakes it', async (t) => {
    const grant = await t.ensure({ profile: 'conformance-idle' })
    const counter = 'while :; do echo >> ticks; sleep 0.05; done'
    assert.equal((await t.exec(grant, { command: `nohup sh -c '${counter}' >/dev/null 2>&1 &` })).status, 200)
    const state = async () => ((await t.session('GET', grant.session_id, '?token=false')).body.binding as Grant['binding']).state
    await eventually('it is suspended', async () => (await state()) === 'suspended')
    const ticks = async () => Number((await t.exec(grant, 'wc -l < ticks')).body.stdout)
    const first = await ticks()
    await eventually('the counter goes on', async () => (await ticks()) > first)
    await eventually('it reads active', async () => (await state()) === 'active')
  }),
  check('2.4', 'list: pages without repeats, filters by state, scope and label', async (t) => {
    const label = `run-${crypto.randomUUID().slice(0, 8)}`
    const made = await Promise.all([1, 2, 3, 4, 5].map(() => t.ensure({ labels: { suite: label } })))
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const page: { sessions: { id: string }[]; next_cursor: string | null } = (
        await t.call<never>('GET', `/v1/sandbox/sessions?label=suite:${label}&limit=2${cursor === null ? '' : `&cursor=${cursor}`}`)
      ).body
      seen.push(...page.sessions.map(({ id }) => id))
      cursor = page.next_cursor
    } while (cursor !== null)
    assert.deepEqual(seen.toSorted(), made.map(({ session_id }) => session_id).toSorted())
  }),
]
