import assert from 'node:assert/strict'
import { type Case, check } from '../case.ts'
import { claimsOf, refused } from '../expect.ts'

const SESSIONS = '/v1/sandbox/sessions'
const SECONDS = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/

/** Contract 2.1 and 2.2: conventions, and negotiation in the MVP shape. */
export const negotiateCases: readonly Case[] = [
  check('4-01, 4-06, 4-07', 'ensure answers 200 with every field of the MVP shape', async (t) => {
    const reply = await t.neg({ thread_id: t.thread(), mode: 'ensure' })
    assert.equal(reply.status, 200)
    assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
    assert.equal(reply.headers.get('cache-control'), 'no-store')
    const { session_id, thread_id, sandbox, token, expires_at } = reply.body
    for (const value of [
      session_id,
      thread_id,
      sandbox.id,
      sandbox.provider,
      sandbox.http_base_url,
      sandbox.ws_base_url,
      token,
      expires_at,
    ])
      assert.equal(typeof value, 'string')
    assert.notEqual(session_id, sandbox.id)
  }),
  check('4-02', 'no, another or an unknown credential is 401 with WWW-Authenticate', async (t) => {
    const bad: Record<string, string>[] = [
      {},
      { authorization: 'Basic eA==' },
      { authorization: 'Bearer bxo_unknown' },
      { 'x-api-key': 'bxo_unknown' },
    ]
    for (const headers of bad) {
      const reply = await t.call('POST', SESSIONS, { key: null, headers, body: { thread_id: 't', mode: 'ensure' } })
      refused(reply, 401, 'UNAUTHENTICATED')
      assert.match(reply.headers.get('www-authenticate') ?? '', /^Bearer/)
    }
  }),
  check('4-02', 'X-Api-Key is a server credential too; two that differ are refused', async (t) => {
    assert.equal((await t.call('GET', SESSIONS, { key: null, headers: { 'x-api-key': t.key } })).status, 200)
    refused(await t.call('GET', SESSIONS, { headers: { 'x-api-key': 'bxo_another' } }), 401, 'UNAUTHENTICATED')
  }),
  check('4-03', 'thread_id and mode are required and typed; the field is named', async (t) => {
    const bad: [Record<string, unknown>, RegExp][] = [
      [{ mode: 'ensure' }, /thread_id/],
      [{ thread_id: '', mode: 'ensure' }, /thread_id/],
      [{ thread_id: 7, mode: 'ensure' }, /thread_id/],
      [{ thread_id: 't' }, /mode/],
      [{ thread_id: 't', mode: 'x' }, /mode/],
      [{ thread_id: 't', mode: 7 }, /mode/],
    ]
    for (const [body, field] of bad) {
      const { relay: _, ...plain } = { relay: undefined, ...body }
      assert.match(refused(await t.call('POST', SESSIONS, { body: plain }), 400, 'INVALID_REQUEST').message, field)
    }
  }),
  check('4-04', 'get never creates', async (t) => {
    const thread = t.thread()
    refused(await t.neg({ thread_id: thread, mode: 'get' }), 404, 'SESSION_NOT_FOUND')
    const list = await t.call<{ sessions: unknown[] }>('GET', `${SESSIONS}?scope_id=${encodeURIComponent(thread)}`)
    assert.deepEqual(list.body.sessions, [])
  }),
  check('4-05', 'ensure twice gives one session and one sandbox', async (t) => {
    const first = await t.ensure()
    const again = await t.ensure({ thread_id: first.thread_id })
    assert.deepEqual([again.session_id, again.sandbox.id], [first.session_id, first.sandbox.id])
  }),
  check('4-15, C-21', '30 parallel ensures of one thread give one session', async (t) => {
    const thread = t.thread()
    const all = await Promise.all(Array.from({ length: 30 }, () => t.ensure({ thread_id: thread })))
    assert.equal(new Set(all.map(({ session_id, sandbox }) => `${session_id} ${sandbox.id}`)).size, 1)
  }),
  check('4-08', 'expires_at is whole seconds in UTC, in the future, and the exp of the token', async (t) => {
    const { token, expires_at } = await t.shared()
    assert.match(expires_at, SECONDS)
    assert.ok(Date.parse(expires_at) > Date.now() - 5000)
    assert.equal(claimsOf(token).exp, Date.parse(expires_at) / 1000)
  }),
  check('4-09, 4-100, C-42', 'the base URL works as given, with a suffix appended', async (t) => {
    const { status, body } = await t.exec(await t.shared(), 'echo ok')
    assert.deepEqual([status, body.stdout], [200, 'ok\n'])
  }),
  check('4-10, C-12', 'one idempotency key and body give one session, and say that they did', async (t) => {
    const thread = t.thread()
    const once = () => t.neg({ thread_id: thread, mode: 'ensure' }, { headers: { 'idempotency-key': thread } })
    const [first, second] = [await once(), await once()]
    assert.deepEqual([second.status, second.body.session_id], [200, first.body.session_id])
    assert.equal(second.headers.get('idempotent-replayed'), 'true')
    assert.notEqual(second.body.token, first.body.token)
  }),
  check('C-13', 'one idempotency key with another body is 409 and names the key', async (t) => {
    const headers = { 'idempotency-key': t.thread() }
    assert.equal((await t.neg({ thread_id: t.thread(), mode: 'ensure' }, { headers })).status, 200)
    const error = refused(await t.neg({ thread_id: t.thread(), mode: 'ensure' }, { headers }), 409, 'SESSION_CONFLICT')
    assert.match(error.message, /key/i)
  }),
  check('C-14', 'two requests of one idempotency key at once make one session', async (t) => {
    const thread = t.thread()
    const headers = { 'idempotency-key': thread }
    const both = await Promise.all([1, 2].map(() => t.neg({ thread_id: thread, mode: 'ensure' }, { headers })))
    assert.deepEqual([both[0]?.status, both[1]?.body.session_id], [200, both[0]?.body.session_id])
  }),
  check('C-15', 'an idempotency key of a released session is 409', async (t) => {
    const thread = t.thread()
    const headers = { 'idempotency-key': thread }
    const { body } = await t.neg({ thread_id: thread, mode: 'ensure' }, { headers })
    assert.equal((await t.release(body.session_id)).status, 204)
    refused(await t.neg({ thread_id: thread, mode: 'ensure' }, { headers }), 409, 'SESSION_CONFLICT')
  }),
  check('4-13, C-17', 'Prefer: wait=0 answers 200, or 423 with what is needed to ask again', async (t) => {
    const thread = t.thread()
    const reply = await t.neg({ thread_id: thread, mode: 'ensure' }, { headers: { prefer: 'wait=0' } })
    if (reply.status === 200) return
    const { details } = refused(reply, 423, 'SANDBOX_STARTING')
    assert.equal(reply.headers.get('retry-after'), '2')
    assert.equal((await t.ensure({ thread_id: thread })).session_id, details?.session_id)
  }),
  check('4-16', 'neither answer nor token nor environment holds a credential of the control plane', async (t) => {
    const grant = await t.shared()
    const environment = await t.exec(grant, 'env; cat /proc/1/environ 2>/dev/null | tr "\\0" "\\n"')
    for (const text of [JSON.stringify(grant), JSON.stringify(claimsOf(grant.token)), String(environment.body.stdout)]) {
      assert.ok(!text.includes(t.key))
      assert.doesNotMatch(text, /docker\.sock|PRIVATE KEY|enroll/i)
    }
  }),
  check('4-17, 4-163', 'acquire is audited under the request id of the caller, without the token', async (t) => {
    const id = `req_conformance_${crypto.randomUUID()}`
    const reply = await t.neg({ thread_id: t.thread(), mode: 'ensure' }, { headers: { 'x-request-id': id } })
    assert.equal(reply.headers.get('x-request-id'), id)
    const audit = await t.call<{ entries?: unknown[] }>(
      'GET',
      `/v1/audit?event=sandbox.session.acquire&session_id=${reply.body.session_id}`,
    )
    assert.ok(audit.text.includes(id) && audit.text.includes(reply.body.sandbox.id), audit.text.slice(0, 300))
    assert.ok(!audit.text.includes(reply.body.token))
  }),
  check('4-18', 'unknown request fields are ignored', async (t) => {
    await t.ensure({ future: { x: 1 } })
  }),
  check('C-07', 'ids are opaque: ssn_ and sb_ with a UUIDv4', async (t) => {
    const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}'
    const { session_id, sandbox } = await t.shared()
    assert.match(session_id, new RegExp(`^ssn_${uuid}$`))
    assert.match(sandbox.id, new RegExp(`^sb_${uuid}$`))
  }),
  check('C-08', 'thread ids: exact bytes, 1 to 256, no control characters, no space at an end', async (t) => {
    for (const thread_id of [' t', 't ', 'a\nb', 'a\u0000b', 'x'.repeat(257)])
      refused(await t.neg({ thread_id, mode: 'ensure' }), 400, 'INVALID_REQUEST')
    const base = t.thread()
    const composed = await t.ensure({ thread_id: `${base}/\u00e9` })
    refused(await t.neg({ thread_id: `${base}/e\u0301`, mode: 'get' }), 404, 'SESSION_NOT_FOUND')
    assert.equal(composed.thread_id, `${base}/\u00e9`)
  }),
  check('C-19', 'who you are comes before what you say', async (t) => {
    refused(
      await t.call('POST', SESSIONS, { key: 'wrong', headers: { 'content-type': 'application/json' }, body: '{' }),
      401,
      'UNAUTHENTICATED',
    )
    refused(await t.call('POST', SESSIONS, { headers: { 'content-type': 'application/json' }, body: '{' }), 400, 'INVALID_REQUEST')
  }),
  check('C-80', '405 with Allow, 415, 413, HEAD, a trailing slash', async (t) => {
    const wrong = await t.call('PATCH', SESSIONS, {})
    refused(wrong, 405, 'METHOD_NOT_ALLOWED')
    assert.match(wrong.headers.get('allow') ?? '', /GET.*POST|POST.*GET/)
    refused(await t.call('POST', SESSIONS, { headers: { 'content-type': 'text/plain' }, body: '{}' }), 415, 'UNSUPPORTED_MEDIA_TYPE')
    refused(await t.neg({ thread_id: 't', mode: 'get', x: 'x'.repeat(70_000) }), 413, 'PAYLOAD_TOO_LARGE')
    const head = await t.call('HEAD', SESSIONS, {})
    assert.deepEqual([head.status, head.bytes.length], [200, 0])
    assert.equal((await t.call('GET', `${SESSIONS}/`, {})).status, 200)
  }),
  check('4-160, C-44', 'an unknown route answers the envelope', async (t) => {
    refused(await t.call('GET', '/v1/nonesuch'), 404, 'NOT_FOUND')
  }),
  check('C-43', 'URLs never follow the Host or forwarding headers of the request', async (t) => {
    const { sandbox, thread_id } = await t.shared()
    const reply = await t.neg(
      { thread_id, mode: 'get' },
      { headers: { 'x-forwarded-host': 'evil.example', forwarded: 'host=evil.example' } },
    )
    assert.equal(reply.body.sandbox.http_base_url, sandbox.http_base_url)
  }),
]
