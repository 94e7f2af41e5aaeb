import { createHmac } from 'node:crypto'
import { decodeJwt } from 'jose'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { json, startServer } from '../support/server.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

const SECRET = 'Vb7nQx2LmT5zKc8RpW1sYd4HgJ6fAe9U'
type Question = { tenant: string; principal: string; scope: { type: string; id: string }; mode: string; relation: string | null }

/** What the webhook answers, by principal; status 200 unless it says otherwise. */
let answers: Record<string, unknown>
let hook: Awaited<ReturnType<typeof startServer>>
let broker: TestBroker
beforeEach(async () => {
  answers = {}
  hook = await startServer(({ body }, response) => {
    const { principal } = JSON.parse(body) as Question
    const answer = answers[principal] ?? { allow: false }
    if (typeof answer === 'number') return json(response, answer, {})
    if (typeof answer === 'string') return void response.writeHead(200).end(answer)
    json(response, 200, answer)
  })
  broker = await startTestBroker({ authorizer: 'webhook', authorizerUrl: `${hook.url}/access?for=boxoffice`, authorizerSecret: SECRET })
  await broker.startAgent()
})
afterEach(async () => {
  await broker.stop()
  await hook.close()
})

const questions = () => hook.received.map(({ body }) => JSON.parse(body) as Question)
const capsOf = (token: string) => decodeJwt(token).caps

test('it is told tenant, principal, scope, what for, and what the broker knows of the two', async () => {
  const alice = await broker.principal('alice')
  answers.alice = { allow: true }
  const made = await alice.ensure('t')
  await alice.refresh(made.session_id)
  await alice.release(made.session_id)
  const about = { tenant: 'default', principal: 'alice', scope: { type: 'thread', id: 't' } }
  expect(questions()).toEqual([
    { ...about, mode: 'ensure', relation: null },
    // Asked again, as its owner by then.
    { ...about, mode: 'ensure', relation: 'owner' },
    { ...about, mode: 'use', relation: 'owner' },
    { ...about, mode: 'release', relation: 'owner' },
  ])
  expect(new Set(hook.received.map(({ method, path }) => `${method} ${path}`))).toEqual(new Set(['POST /access?for=boxoffice']))
})

test('the question is signed with the shared secret and the time; the credential does not go there', async () => {
  const alice = await broker.principal('alice')
  await alice.refused({ thread_id: 't', mode: 'ensure' })
  const [call] = hook.received
  const [, seconds = '', signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(call?.headers['x-boxoffice-signature'])) ?? []
  expect(signature).toBe(createHmac('sha256', SECRET).update(`${seconds}.${call?.body}`).digest('hex'))
  expect(Math.abs(Number(seconds) - Date.now() / 1000)).toBeLessThan(60)
  expect(JSON.stringify(call)).not.toContain(alice.key)
  expect(JSON.stringify(call)).not.toContain(SECRET)
})

test('a no is 403 also for whoever was the owner; its own word is the only one', async () => {
  const alice = await broker.principal('alice')
  answers.alice = { allow: true }
  const made = await alice.ensure('t')
  answers.alice = { allow: false }
  await broker.advance(61_000)
  expect((await alice.refresh(made.session_id)).status).toBe(403)
  expect((await alice.refused({ thread_id: 't', mode: 'ensure' })).status).toBe(403)
})

test('role: a member makes a session and does not own it; an owner may release what another one made', async () => {
  const [alice, bob] = [await broker.principal('alice'), await broker.principal('bob')]
  answers.alice = { allow: true, role: 'member' }
  answers.bob = { allow: true, role: 'owner' }
  const made = await alice.ensure('t')
  expect((await alice.release(made.session_id)).status).toBe(403)
  // It is nobody's; an operator sees to it all the same.
  expect((await broker.read(made.session_id)).status).toBe(200)
  expect((await bob.ensure('t')).session_id).toBe(made.session_id)
  expect((await bob.release(made.session_id)).status).toBe(204)
})

test('[4-75] capabilities bound what a token carries; names that nobody knows grant nothing', async () => {
  const [alice, bob, carol] = [await broker.principal('alice'), await broker.principal('bob'), await broker.principal('carol')]
  answers.alice = { allow: true }
  answers.bob = { allow: true, capabilities: ['fs_read', 'fly'] }
  answers.carol = { allow: true, capabilities: [] }
  expect(capsOf((await alice.ensure('t')).token)).toEqual(['fs_read', 'fs_write', 'shell', 'exec'])
  const viewer = await bob.ensure('t')
  expect(capsOf(viewer.token)).toEqual(['fs_read'])
  const { body } = await bob.refresh(viewer.session_id)
  expect(capsOf(body.token)).toEqual(['fs_read'])
  expect(capsOf((await carol.ensure('t')).token)).toEqual([])
})

test('an operator is not asked about', async () => {
  await broker.ensure('t')
  expect(hook.received).toEqual([])
})

test.each([
  ['status 500', 500],
  ['status 302', 302],
  ['status 403: a refusal is {"allow":false}, not a status', 403],
  ['no JSON', 'yes'],
  ['no "allow"', { ok: true }],
  ['a text for "allow"', { allow: 'false' }],
  ['a role that is none', { allow: true, role: 'root' }],
  ['capabilities that are no list', { allow: true, capabilities: 'exec' }],
])('%s: 503, and nothing is made', async (_, answer) => {
  const alice = await broker.principal('alice')
  answers.alice = answer
  const { status, body } = await alice.refused({ thread_id: 't', mode: 'ensure' })
  expect([status, body.error.code, body.error.retryable]).toEqual([503, 'PROVIDER_UNAVAILABLE', true])
  expect((await broker.get<{ sessions: unknown[] }>('/v1/sandbox/sessions')).body.sessions).toEqual([])
  // A failure is not remembered.
  answers.alice = { allow: true }
  await alice.ensure('t')
})
