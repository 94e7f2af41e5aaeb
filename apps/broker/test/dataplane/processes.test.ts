import { once } from 'node:events'
import { connect } from 'node:net'
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { API_KEY, type BrokerProcess, ENROLL_TOKEN, startBrokerProcess } from '../support/broker-process.ts'
import { type FakeAgent, startFakeAgent } from '../support/fake-agent.ts'
import { caller, gate, type Refusal, removeDir, tempDir } from '../support/test-broker.ts'

let dataDir: string
let started: { stop(): Promise<unknown> }[]
let agent: FakeAgent

beforeEach(() => {
  dataDir = tempDir()
  started = []
})
afterEach(async () => {
  await Promise.all(started.map((broker) => broker.stop()))
  await agent?.close()
  removeDir(dataDir)
})

const shared = { BOXOFFICE_SHARED_DATA_DIR: '1' }
const start = async (env: Record<string, string> = {}): Promise<BrokerProcess> => {
  const broker = await startBrokerProcess(dataDir, env)
  started.push(broker)
  return broker
}
const join = async ({ url }: BrokerProcess) => {
  agent = await startFakeAgent({ brokerUrl: url, enrollToken: ENROLL_TOKEN })
}
const putsOf = () => agent.calls.filter((call) => call.startsWith('PUT')).length
const events = async (broker: BrokerProcess, event: string) =>
  (await broker.get<{ entries: Record<string, unknown>[] }>(`/v1/audit?event=${event}`)).body.entries
const patient = { prefer: 'wait=30' }

test('[4-15, C-21] 100 parallel ensures through two broker processes: one session, one sandbox', { timeout: 180_000 }, async () => {
  const [a, b] = await Promise.all([start(shared), start(shared)])
  await join(a)
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const all = Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      (i % 2 === 0 ? a : b).negotiate({ thread_id: 't', mode: 'ensure' }, patient).then(({ status, body }) => ({ status, ...body })),
    ),
  )
  await agent.until(() => putsOf() > 0)
  ready.open(undefined)
  const answers = await all
  expect(new Set(answers.map(({ status, session_id, sandbox }) => `${status} ${session_id} ${sandbox.id}`)).size).toBe(1)
  expect(answers[0]?.status).toBe(200)
  expect([agent.created, agent.sandboxes.size]).toEqual([1, 1])
  expect(await events(b, 'sandbox.session.create')).toHaveLength(1)
  expect(await events(b, 'sandbox.session.acquire')).toHaveLength(100)
})

test('[C-24] a broker stopped in the middle of making a sandbox: another takes over; resumed, it changes nothing', {
  timeout: 180_000,
}, async () => {
  const [a, b] = await Promise.all([start(shared), start(shared)])
  await join(b)
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const first = a.negotiate({ thread_id: 't', mode: 'ensure' }, patient)
  await agent.until(() => putsOf() === 1)
  a.freeze()
  await agent.until(() => putsOf() === 2) // b has adopted the row and asks for the same sandbox
  ready.open(undefined)
  const second = await b.negotiate({ thread_id: 't', mode: 'ensure' }, patient)
  a.thaw()
  const resumed = await first
  expect([second.status, resumed.status]).toEqual([200, 200])
  expect([resumed.body.session_id, resumed.body.sandbox.id]).toEqual([second.body.session_id, second.body.sandbox.id])
  expect([agent.created, agent.sandboxes.size]).toEqual([1, 1])
  expect(await events(b, 'sandbox.session.active')).toHaveLength(1)
  expect(await events(b, 'sandbox.session.takeover')).toHaveLength(1)
})

test('[C-20 e] resumed when the session has ended: 409, and the sandbox does not come back', { timeout: 180_000 }, async () => {
  const [a, b] = await Promise.all([start(shared), start(shared)])
  await join(b)
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const first = a.negotiate<Refusal>({ thread_id: 't', mode: 'ensure' }, patient)
  await agent.until(() => putsOf() === 1)
  a.freeze()
  await agent.until(() => putsOf() === 2)
  ready.open(undefined)
  const { body } = await b.negotiate({ thread_id: 't', mode: 'ensure' }, patient)
  expect((await b.release(body.session_id)).status).toBe(204)
  await agent.until(() => agent.sandboxes.size === 0)
  a.thaw()
  const resumed = await first
  expect([resumed.status, resumed.body.error.code, resumed.body.error.retryable]).toEqual([409, 'SESSION_CONFLICT', false])
  await agent.heartbeat()
  expect([agent.created, agent.sandboxes.size]).toEqual([1, 0])
})

test('[4-94, C-24] kill -9 in the middle of making a sandbox, restart: no orphan, ensure works', { timeout: 180_000 }, async () => {
  const a = await start()
  await join(a)
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const early = await a.negotiate<Refusal>({ thread_id: 't', mode: 'ensure' }, { prefer: 'wait=0' })
  await agent.until(() => putsOf() === 1)
  await a.kill()
  const again = await start({ BOXOFFICE_PORT: a.port })
  const waiting = again.negotiate({ thread_id: 't', mode: 'ensure' }, patient)
  await agent.until(() => putsOf() === 2)
  ready.open(undefined)
  const { status, body } = await waiting
  expect([status, body.session_id]).toEqual([200, early.body.error.details?.session_id])
  expect([...agent.sandboxes.keys()]).toEqual([body.sandbox.id])
})

test('[4-94] kill -9, and the agent does not come back: another one makes the sandbox', { timeout: 180_000 }, async () => {
  const a = await start()
  await join(a)
  agent.hooks.create = () => new Promise(() => {})
  const early = await a.negotiate<Refusal>({ thread_id: 't', mode: 'ensure' }, { prefer: 'wait=0' })
  await agent.until(() => putsOf() === 1)
  await a.kill()
  await agent.close()
  const again = await start({ BOXOFFICE_PORT: a.port, BOXOFFICE_AGENT_TIMEOUT: '1' })
  await join(again)
  const { status, body } = await again.negotiate({ thread_id: 't', mode: 'ensure' }, patient)
  expect([status, body.session_id]).toEqual([200, early.body.error.details?.session_id])
  expect([...agent.sandboxes.keys()]).toEqual([body.sandbox.id])
})

test('[C-72, 4-19] kill -9 straight after a 200: the session and its audit row are there', { timeout: 180_000 }, async () => {
  const a = await start()
  await join(a)
  const { body } = await a.negotiate({ thread_id: 't', mode: 'ensure' }, { 'x-request-id': 'req_before_kill' })
  await a.kill()
  const again = await start({ BOXOFFICE_PORT: a.port })
  expect((await again.negotiate({ thread_id: 't', mode: 'get' })).body.session_id).toBe(body.session_id)
  const acquired = (await events(again, 'sandbox.session.acquire')).map(({ request_id }) => request_id)
  expect(acquired).toContain('req_before_kill')
})

test('[2.14] a key that one broker revokes is refused by the other within 2 s', { timeout: 180_000 }, async () => {
  const [a, b] = await Promise.all([start(shared), start(shared)])
  await join(a)
  const { body } = await a.post<{ id: string; key: string }>('/v1/keys', { name: 'k', principal: 'p' })
  const user = caller(b.url, body.key)
  expect((await user.get('/v1/profiles')).status).toBe(200)
  await a.delete(`/v1/keys/${body.id}`)
  const revoked = performance.now()
  await expect.poll(async () => (await user.get('/v1/profiles')).status, { timeout: 60_000 }).toBe(401)
  expect(performance.now() - revoked).toBeLessThan(30_000)
})

test('[4-52] brokers of one data directory sign as one issuer, with keys that either publishes', { timeout: 180_000 }, async () => {
  const [a, b] = await Promise.all([start(shared), start(shared)])
  await join(a)
  const [viaA, viaB] = [await a.ensure('t'), await b.ensure('t')]
  const claims = [viaA, viaB].map(
    ({ token }) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { iss: string },
  )
  expect(new Set(claims.map(({ iss }) => iss)).size).toBe(1)
  expect((await a.get('/.well-known/jwks.json')).body).toEqual((await b.get('/.well-known/jwks.json')).body)
})

test('[C-49] SIGHUP publishes the next signing key; tokens from before stay good', { timeout: 180_000 }, async () => {
  const a = await start()
  await join(a)
  const { token } = await a.ensure('t')
  const published = async () => (await a.get<JSONWebKeySet>('/.well-known/jwks.json')).body
  const before = await published()
  a.hangUp()
  await expect.poll(async () => (await published()).keys.length, { timeout: 60_000 }).toBe(2)
  const after = await published()
  expect(after.keys).toEqual(expect.arrayContaining(before.keys))
  expect((await jwtVerify(token, createLocalJWKSet(after))).payload.sub).toBeTypeOf('string')
  // The new one is not used before agents that cached the keys can have it.
  expect((await jwtVerify((await a.ensure('t')).token, createLocalJWKSet(before))).payload.sub).toBeTypeOf('string')
  expect(await a.stop()).toBe(0)
})

test('[2.14] a second broker on the data directory exits, naming the pid of the first', { timeout: 180_000 }, async () => {
  const a = await start()
  await join(a)
  await expect(startBrokerProcess(dataDir)).rejects.toThrow(`pid ${a.pid}`)
})

test('[2.14] SIGTERM: exit 0, sandboxes stay', { timeout: 180_000 }, async () => {
  const a = await start()
  await join(a)
  await a.ensure('t')
  expect(await a.stop()).toBe(0)
  expect(agent.sandboxes.size).toBe(1)
})

test('[4-57, 9] the log of a full run holds no token, key or enroll token', { timeout: 180_000 }, async () => {
  const a = await start({ BOXOFFICE_LOG_LEVEL: 'trace' })
  await join(a)
  const { session_id, token } = await a.ensure('t')
  const fresh = (await a.refresh(session_id)).body.token
  await caller(a.url, token).get('/v1/profiles')
  await agent.register({}, 'a-forged-enroll-token')
  agent.hooks.create = async () => ({ status: 503, code: 'BACKEND_UNAVAILABLE', message: 'engine down' })
  await a.refused({ thread_id: 'fails', mode: 'ensure' })
  await a.release(session_id)
  const made = (await a.post<{ key: string }>('/v1/keys', { name: 'n', principal: 'p' })).body.key
  await a.stop()
  const secrets = [token, fresh, made, API_KEY, ENROLL_TOKEN, 'a-forged-enroll-token', agent.registration.agent_token]
  expect(a.log()).toContain('engine down')
  for (const secret of secrets) expect(a.log()).not.toContain(secret)
})

test('[2.14] SIGTERM: a request in flight is answered; a silent connection does not hold up the end', { timeout: 180_000 }, async () => {
  const a = await start()
  await join(a)
  const ready = gate<undefined>()
  agent.hooks.create = () => ready.promise
  const silent = connect(Number(a.port), '127.0.0.1')
  await once(silent, 'connect')
  const answer = a.negotiate({ thread_id: 't', mode: 'ensure' }, patient)
  await agent.until(() => putsOf() === 1)
  const end = a.stop()
  await once(silent.resume(), 'end')
  ready.open(undefined)
  expect((await answer).status).toBe(200)
  expect(await end).toBe(0)
})
