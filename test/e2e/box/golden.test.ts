import { readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dataplane, type Grant, request } from '../support/api.ts'
import { expectRefusal } from '../support/refusal.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'

/**
 * [4-172] MVP requests and what they were answered when the MVP shipped, against a real broker and agent. Answers may gain fields,
 * never lose or change one. `<…>` stands for what differs from run to run; messages are for people and may be worded anew.
 * UPDATE_GOLDEN=1 writes the file; a diff of it in review is a broken promise to clients unless it only adds lines.
 */
const FILE = new URL('../../golden/mvp.json', import.meta.url)

type Exchange = {
  request: { method: string; path: string; headers?: Record<string, string>; body?: unknown }
  response: { status: number; headers: Record<string, string>; body: unknown }
}
/** `until`: repeated until it has this status, for what takes its time. */
type Step = Exchange['request'] & { until?: number; first?: (stack: Stack) => Promise<unknown> }

const SESSIONS = '/v1/sandbox/sessions'
const negotiate = (body: unknown, headers?: Record<string, string>): Step => ({
  method: 'POST',
  path: SESSIONS,
  ...(headers && { headers }),
  body,
})
const refresh = (id: string, body?: unknown): Step => ({
  method: 'POST',
  path: `${SESSIONS}/${id}/refresh`,
  ...(body !== undefined && { body }),
})
const release = (id: string): Step => ({ method: 'DELETE', path: `${SESSIONS}/${id}` })
const get = { thread_id: 'thr_123', mode: 'get' }
const ensure = { thread_id: 'thr_123', mode: 'ensure' }

const steps: Step[] = [
  negotiate(get),
  negotiate(ensure),
  negotiate(ensure),
  negotiate(get),
  negotiate({ ...get, future: true }),
  negotiate(ensure, { authorization: '', 'x-api-key': '<api_key>' }),
  negotiate({ thread_id: 'thr_123' }),
  negotiate({ mode: 'get' }),
  negotiate({ thread_id: ' thr_123', mode: 'get' }),
  negotiate({ thread_id: 'thr_123', mode: 'steal' }),
  negotiate({ thread_id: 'thr_123', mode: 'ensure', profile: 'nope' }),
  negotiate(get, { authorization: 'Bearer wrong' }),
  negotiate(get, { authorization: 'Bearer <token>' }),
  negotiate(get, { authorization: 'Bearer <other_key>' }),
  refresh('<session_id>', {}),
  refresh('<session_id>'),
  refresh('ssn_unknown', {}),
  { ...refresh('<session_id>', {}), headers: { authorization: 'Bearer <other_key>' } },
  { ...release('<session_id>'), headers: { authorization: 'Bearer <other_key>' } },
  release('<session_id>'),
  release('<session_id>'),
  refresh('<session_id>', {}),
  negotiate(get),
  negotiate(ensure, { 'idempotency-key': '7f0a4f0e-4f1c-4f6e-8a52-6d0d1c1f8a01' }),
  negotiate(ensure, { 'idempotency-key': '7f0a4f0e-4f1c-4f6e-8a52-6d0d1c1f8a01' }),
  negotiate({ thread_id: 'thr_456', mode: 'ensure' }, { 'idempotency-key': '7f0a4f0e-4f1c-4f6e-8a52-6d0d1c1f8a01' }),
  negotiate({ thread_id: 'thr_789', mode: 'ensure', profile: 'brief' }),
  { ...refresh('<session_id>', {}), until: 410 },
  negotiate({ thread_id: 'thr_789', mode: 'get' }),
  { ...negotiate({ thread_id: 'thr_new', mode: 'ensure' }), first: (stack) => stack.agent().stop(), until: 503 },
]

const KEPT_HEADERS = ['content-type', 'cache-control', 'www-authenticate', 'retry-after', 'idempotent-replayed']

const placeholders = (text: string): string =>
  text
    .replace(/"(message|detail)":"(?:[^"\\]|\\.)*"/g, '"$1":"<for people>"')
    .replace(/"isolation":"\w+"/g, '"isolation":"<isolation>"')
    .replace(/ssn_[0-9a-f-]{36}/g, '<session_id>')
    .replace(/sb_[0-9a-f-]{36}/g, '<sandbox_id>')
    .replace(/req_[0-9a-f-]{36}/g, '<request_id>')
    .replace(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, '<token>')
    .replace(/\d{4}-\d\d-\d\dT[\d:]{8}(\.\d+)?Z/g, '<time>')
    .replace(/(http|ws):\/\/127\.0\.0\.1:\d+/g, '$1://<agent>')

const settings = { profiles: [{ name: 'brief', hard_ttl_seconds: 2 }] }

describe.each([
  ['with the full protocol beside it', []],
  ['alone: features.full=false', ['--features', 'full=false']],
])('[4-172, 4-175] the MVP, %s', (_, brokerArgs) => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', config: settings, brokerArgs })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  const send = ({ method, path, headers, body }: Exchange['request']) =>
    request(stack.brokerUrl + path, {
      method,
      headers: {
        authorization: `Bearer ${API_KEY}`,
        prefer: 'wait=60',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })

  test('a token that it gives opens the sandbox', async () => {
    const { body } = await send(negotiate({ thread_id: 'used', mode: 'ensure' }))
    const ran = await dataplane(body as Grant, 'POST', '/exec', { command: 'echo ok' })
    expect([ran.status, (ran.body as { stdout: string }).stdout]).toEqual([200, 'ok\n'])
  })

  test('answers as in the golden file, with nothing missing or changed', async () => {
    const made = await send({ method: 'POST', path: '/v1/keys', body: { name: 'other', principal: 'other' } })
    const known: Record<string, string> = { api_key: API_KEY, other_key: (made.body as { key: string }).key }
    const filled = (text: string) => text.replace(/<(\w+)>/g, (all, name: string) => known[name] ?? all)
    const exchanges: Exchange[] = []
    for (const { until, first, ...sent } of steps) {
      await first?.(stack)
      const headers = Object.fromEntries(Object.entries(sent.headers ?? {}).map(([name, value]) => [name, filled(value)]))
      if (headers.authorization === '') delete headers.authorization
      const call = () => send({ ...sent, path: filled(sent.path), headers })
      let reply = await call()
      while (until !== undefined && reply.status !== until) reply = await call()
      const { session_id, token } = (reply.body ?? {}) as Partial<Grant>
      if (session_id !== undefined) known.session_id = session_id
      if (token !== undefined) known.token = token
      const kept = Object.fromEntries(
        KEPT_HEADERS.flatMap((name) => (reply.headers.has(name) ? [[name, reply.headers.get(name) ?? '']] : [])),
      )
      const body = reply.body === undefined ? null : JSON.parse(placeholders(JSON.stringify(reply.body)))
      exchanges.push({ request: sent, response: { status: reply.status, headers: kept, body } })
    }
    if (process.env.UPDATE_GOLDEN) writeFileSync(FILE, `${JSON.stringify(exchanges, null, 2)}\n`)
    const golden = JSON.parse(readFileSync(FILE, 'utf8')) as Exchange[]
    expect(exchanges).toHaveLength(golden.length)
    for (const [i, expected] of golden.entries()) expect(exchanges[i]).toMatchObject(expected)
  })
})

test('[4-175] without the full protocol its routes are not there, and its requests are refused by their fields', async () => {
  await using stack = await startStack({ provider: 'local', brokerArgs: ['--features', 'full=false'] })
  const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' }
  const post = (path: string, body: unknown) => request(stack.brokerUrl + path, { method: 'POST', headers, body: JSON.stringify(body) })
  const { session_id } = (await post(SESSIONS, ensure)).body as Grant
  for (const route of ['refresh-token', 'heartbeat']) expectRefusal(await post(`${SESSIONS}/${session_id}/${route}`, {}), 404, 'NOT_FOUND')
  const scope = { type: 'thread', id: 'thr_123' }
  for (const body of [
    { scope, mode: 'ensure' },
    { ...get, scope },
  ])
    expect(expectRefusal(await post(SESSIONS, body), 400, 'INVALID_REQUEST').message).toMatch(/^(scope|thread_id): /)
  for (const mode of ['attach_only', 'create_only'])
    expect(expectRefusal(await post(SESSIONS, { thread_id: 'thr_123', mode }), 400, 'INVALID_REQUEST').message).toMatch(/^mode: /)
  const { paths } = (await request(`${stack.brokerUrl}/openapi.json`)).body as { paths: object }
  expect(Object.keys(paths).filter((path) => /heartbeat|refresh-token/.test(path))).toEqual(['/v1/agents/{id}/heartbeat'])
})
