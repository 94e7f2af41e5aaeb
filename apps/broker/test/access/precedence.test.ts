import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { gate, startTestBroker, type TestBroker } from '../support/test-broker.ts'

/** [C-19] Of two things that are wrong with a request, the earlier one of 401, 400, 403, 404/409, 429, 423, 503 is told. */
let broker: TestBroker
let agent: Awaited<ReturnType<TestBroker['startAgent']>>
let alice: Awaited<ReturnType<TestBroker['principal']>>
let bob: Awaited<ReturnType<TestBroker['principal']>>
/** alice's: one that lives, one that was released, one that is starting and does not get ready. */
let live: string
let released: string
const starting = gate<undefined>()

beforeAll(async () => {
  broker = await startTestBroker({ rateLimits: { createPerPrincipal: { perSecond: 0.001, burst: 3 } } })
  agent = await broker.startAgent()
  alice = await broker.principal('alice')
  bob = await broker.principal('bob')
  live = (await alice.ensure('live')).session_id
  released = (await alice.ensure('released')).session_id
  await alice.release(released)
  agent.hooks.create = () => starting.promise
  await alice.negotiate({ thread_id: 'starting', mode: 'ensure' }, { prefer: 'wait=0' })
  // From here on alice is over the limit "create", and no provider is there.
  agent.provider.available = false
  await agent.heartbeat()
})
afterAll(async () => {
  starting.open(undefined)
  await broker.stop()
})

const raw = async (path: string, body: string, headers: Record<string, string>) =>
  (await fetch(broker.url + path, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } })).status
const now = { prefer: 'wait=0' }
const rows: [first: number, than: number, what: string, status: () => Promise<number>][] = [
  [401, 400, 'a bad key with a broken body', () => raw('/v1/sandbox/sessions', '{broken', { 'x-api-key': 'bad' })],
  [401, 403, "a bad key for somebody else's session", async () => (await broker.as('bad').refresh(live)).status],
  [400, 403, "a broken body for an operator's route", () => raw('/v1/keys', '{broken', { 'x-api-key': bob.key })],
  [400, 403, "fields that are missing for an operator's route", async () => (await bob.post('/v1/keys', { name: 'x' })).status],
  [400, 403, "an operator's query that is wrong", async () => (await bob.get('/v1/audit?limit=x')).status],
  [400, 403, "an unknown mode for somebody else's thread", async () => (await bob.negotiate({ thread_id: 'live', mode: 'x' })).status],
  [
    400,
    409,
    'an unknown profile with a live binding',
    async () => (await alice.negotiate({ thread_id: 'live', mode: 'create_only', profile: 'none' })).status,
  ],
  [
    403,
    404,
    "somebody else's thread that has no session",
    async () => (await bob.negotiate({ thread_id: 'released', mode: 'get' })).status,
  ],
  [403, 404, "somebody else's session that was released", async () => (await bob.refresh(released)).status],
  [
    403,
    409,
    "create_only on somebody else's live thread",
    async () => (await bob.negotiate({ thread_id: 'live', mode: 'create_only' })).status,
  ],
  [
    403,
    429,
    'acting for somebody else when over the limit',
    async () => (await alice.negotiate({ thread_id: 'new', mode: 'ensure', actor: { type: 'human', id: 'bob' } })).status,
  ],
  [
    403,
    423,
    "somebody else's thread that is starting",
    async () => (await bob.negotiate({ thread_id: 'starting', mode: 'ensure' }, now)).status,
  ],
  [404, 429, 'get of nothing when over the limit', async () => (await alice.negotiate({ thread_id: 'new', mode: 'get' })).status],
  [404, 503, 'get of nothing without a provider', async () => (await bob.negotiate({ thread_id: 'new', mode: 'get' })).status],
  [
    409,
    429,
    'create_only with a live binding when over the limit',
    async () => (await alice.negotiate({ thread_id: 'live', mode: 'create_only' })).status,
  ],
  [
    409,
    423,
    'create_only with one that is starting',
    async () => (await alice.negotiate({ thread_id: 'starting', mode: 'create_only' }, now)).status,
  ],
  [429, 503, 'over the limit without a provider', async () => (await alice.negotiate({ thread_id: 'new', mode: 'ensure' }, now)).status],
  [
    423,
    503,
    'one that is starting without a provider',
    async () => (await alice.negotiate({ thread_id: 'starting', mode: 'ensure' }, now)).status,
  ],
  [503, 0, 'no provider, and nothing else', async () => (await bob.negotiate({ thread_id: 'new', mode: 'ensure' }, now)).status],
]

describe('[C-19] what is told first', () => {
  test.each(rows)('%i before %i: %s', async (first, _, __, status) => {
    expect(await status()).toBe(first)
  })

  test('409 before 429: an idempotency key with another body', async () => {
    const keyed = { 'idempotency-key': 'k', ...now }
    const first = await alice.negotiate({ thread_id: 'live', mode: 'ensure' }, keyed)
    expect(first.status).toBe(200)
    expect((await alice.negotiate({ thread_id: 'new', mode: 'ensure' }, keyed)).status).toBe(409)
  })

  test('the limit "control" comes after 401, 400 and a role, before everything that must be looked up', async () => {
    const strict = await startTestBroker({ rateLimits: { controlPerTenant: { perSecond: 0.001, burst: 4 } } })
    const user = await strict.principal('user', { tenant: 'acme' })
    for (let i = 0; i < 4; i++) await user.get('/v1/profiles')
    expect((await strict.as('bad').get('/v1/profiles')).status).toBe(401)
    expect((await user.negotiate({ mode: 'x' })).status).toBe(400)
    expect((await user.get('/v1/audit')).status).toBe(403)
    expect((await user.refresh('ssn_00000000-0000-4000-8000-000000000000')).status).toBe(429)
    expect((await user.negotiate({ thread_id: 't', mode: 'ensure' })).status).toBe(429)
    await strict.stop()
  })
})
