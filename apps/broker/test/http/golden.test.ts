import { readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

/**
 * [4-172] MVP requests and what they were answered when the MVP shipped. Answers may gain fields, never lose or change one.
 * `<…>` stands for what differs from run to run. UPDATE_GOLDEN=1 writes the file; a diff of it in review is a broken promise
 * to clients unless it only adds lines.
 */
const FILE = new URL('./mvp-golden.json', import.meta.url)

type Exchange = {
  request: { method: string; path: string; body?: unknown }
  response: { status: number; headers: Record<string, string>; body: unknown }
}
type Step = Exchange['request'] & { headers?: Record<string, string> }

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  await broker.startAgent()
})
afterAll(() => broker.stop())

const SESSIONS = '/v1/sandbox/sessions'
const steps: Step[] = [
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123', mode: 'get' } },
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123', mode: 'ensure' } },
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123', mode: 'ensure' } },
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123', mode: 'get' } },
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123', mode: 'get', future: true } },
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123' } },
  { method: 'POST', path: SESSIONS, body: { mode: 'get' } },
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123', mode: 'steal' } },
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123', mode: 'get' }, headers: { authorization: 'Bearer wrong' } },
  { method: 'POST', path: `${SESSIONS}/<session_id>/refresh`, body: {} },
  { method: 'POST', path: `${SESSIONS}/ssn_unknown/refresh`, body: {} },
  { method: 'DELETE', path: `${SESSIONS}/<session_id>` },
  { method: 'DELETE', path: `${SESSIONS}/<session_id>` },
  { method: 'POST', path: `${SESSIONS}/<session_id>/refresh`, body: {} },
  { method: 'POST', path: SESSIONS, body: { thread_id: 'thr_123', mode: 'get' } },
]

const KEPT_HEADERS = ['content-type', 'cache-control', 'www-authenticate', 'retry-after']

const placeholders = (text: string): string =>
  text
    .replace(/"(message|detail)":"(?:[^"\\]|\\.)*"/g, '"$1":"<for people>"')
    .replace(/ssn_[0-9a-f-]{36}/g, '<session_id>')
    .replace(/sb_[0-9a-f-]{36}/g, '<sandbox_id>')
    .replace(/req_[0-9a-f-]{36}/g, '<request_id>')
    .replace(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, '<token>')
    .replace(/\d{4}-\d\d-\d\dT[\d:]{8}(\.\d+)?Z/g, '<time>')
    .replace(/(http|ws):\/\/127\.0\.0\.1:\d+/g, '$1://<agent>')

async function exchange({ headers, ...request }: Step, sessionId: string): Promise<{ exchange: Exchange; sessionId: string }> {
  const {
    status,
    headers: all,
    body,
  } = await broker.send(request.method, request.path.replace('<session_id>', sessionId), request.body, headers)
  const kept = Object.fromEntries(KEPT_HEADERS.flatMap((name) => (all.has(name) ? [[name, all.get(name) ?? '']] : [])))
  const found = (body as { session_id?: string } | undefined)?.session_id
  const text = body === undefined ? undefined : JSON.parse(placeholders(JSON.stringify(body)))
  return { exchange: { request, response: { status, headers: kept, body: text ?? null } }, sessionId: found ?? sessionId }
}

test('[4-172] the MVP answers as in the golden file, with nothing missing or changed', async () => {
  const exchanges: Exchange[] = []
  let sessionId = ''
  for (const step of steps) {
    const done = await exchange(step, sessionId)
    sessionId = done.sessionId
    exchanges.push(done.exchange)
  }
  if (process.env.UPDATE_GOLDEN) writeFileSync(FILE, `${JSON.stringify(exchanges, null, 2)}\n`)
  const golden = JSON.parse(readFileSync(FILE, 'utf8')) as Exchange[]
  expect(exchanges).toHaveLength(golden.length)
  for (const [i, expected] of golden.entries()) expect(exchanges[i]).toMatchObject(expected)
})
