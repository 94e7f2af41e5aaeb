import { PrincipalLimit } from '@boxoffice/node-http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Refusal, startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

test('[C-58] the limit of a principal: names do not run into each other, and its own limit spares the tenant’s', () => {
  const one = { perSecond: 1, burst: 1 }
  const limit = new PrincipalLimit('x', { principal: one, tenant: { perSecond: 1, burst: 2 } }, () => 0)
  const refused = (tenant: string, id: string) => limit.refusal({ tenant, id })?.details?.limit
  expect([refused('t', 'a'), refused('t', 'a'), refused('t', 'a'), refused('t', 'b'), refused('t', 'c')]).toEqual([
    undefined,
    'x',
    'x',
    undefined,
    'x',
  ])
  expect([refused('a/b', 'c'), refused('a', 'b/c')]).toEqual([undefined, undefined])
  const off = new PrincipalLimit('x', { principal: undefined, tenant: undefined }, () => 0)
  expect(off.refusal({ tenant: 't', id: 'a' })).toBeUndefined()
})

describe('[C-58] the limit "control"', () => {
  let broker: TestBroker
  beforeAll(async () => {
    const rateLimits = { controlPerPrincipal: { perSecond: 0.01, burst: 3 }, controlPerTenant: { perSecond: 0.01, burst: 7 } }
    broker = await startTestBroker({ rateLimits })
    await broker.startAgent()
  })
  afterAll(() => broker.stop())

  test('is per principal and per tenant; 429 with Retry-After, then served', async () => {
    const names = ['a', 'b', 'c'] as const
    const people = await Promise.all(names.map((name) => broker.principal(name, { tenant: 'acme' })))
    const ask = (i: number) => people[i]?.get<Refusal>('/v1/profiles')
    const statuses = []
    for (const i of [0, 0, 0, 0, 1, 1, 1, 2, 2]) statuses.push((await ask(i))?.status)
    expect(statuses).toEqual([200, 200, 200, 429, 200, 200, 200, 200, 429])
    const limited = await ask(0)
    expect([limited?.body.error.code, limited?.body.error.retryable, limited?.body.error.details]).toEqual([
      'RATE_LIMITED',
      true,
      { limit: 'control' },
    ])
    const retryAfter = Number(limited?.headers.get('retry-after'))
    expect(retryAfter).toBeGreaterThanOrEqual(1)
    expect(retryAfter).toBeLessThanOrEqual(100)
    // What the answer says, holds.
    await broker.advance(retryAfter * 1000)
    expect((await ask(0))?.status).toBe(200)
  })

  test('counts requests that are wrong, and nobody who is not known', async () => {
    await broker.advance(1_000_000)
    const user = await broker.principal('wrong', { tenant: 'wrong' })
    const statuses = []
    for (let i = 0; i < 4; i++) statuses.push((await user.negotiate({ mode: 'x' })).status)
    expect(statuses).toEqual([400, 400, 400, 400])
    expect((await user.get('/v1/profiles')).status).toBe(429)
    for (let i = 0; i < 10; i++) expect((await fetch(`${broker.url}/healthz`)).status).toBe(200)
  })

  test('is not for agents: they are heard whatever people do', async () => {
    const agent = await broker.startAgent({ heartbeat: false })
    for (let i = 0; i < 10; i++) await agent.heartbeat()
  })

  test('is off unless it is set', async () => {
    const free = await startTestBroker()
    const statuses = await Promise.all(Array.from({ length: 300 }, async () => (await free.get('/v1/profiles')).status))
    expect(new Set(statuses)).toEqual(new Set([200]))
    await free.stop()
  })
})

test('[C-58] brokers of one database share a limit, and the last one has it whole', async () => {
  const dataDir = tempDir()
  const rateLimits = { controlPerPrincipal: { perSecond: 0.001, burst: 8 } }
  const settings = { dataDir, sharedDataDir: true, rateLimits, apiKey: 'k'.repeat(40), reaperIntervalMs: 3_600_000, brokerTimeout: 600 }
  const first = await startTestBroker(settings)
  const second = await startTestBroker(settings)
  const served = async (broker: TestBroker, name: string) => {
    const { as } = broker
    const { key } = await first.principal(name)
    const statuses = await Promise.all(Array.from({ length: 10 }, async () => (await as(key).get('/v1/profiles')).status))
    return statuses.filter((status) => status === 200).length
  }
  // The first has counted before the second was there.
  await first.broker.reap()
  expect([await served(first, 'a'), await served(second, 'b')]).toEqual([4, 4])
  await second.stop()
  await first.broker.reap()
  expect(await served(first, 'c')).toBe(8)
  await first.stop()
})

describe('[C-58, 4-164] the limit "create"', () => {
  test('is per principal and per tenant; 429, then served; what exists is served all the while', async () => {
    const rates = { createPerPrincipal: { perSecond: 0.01, burst: 2 }, createPerTenant: { perSecond: 0.01, burst: 3 } }
    const broker = await startTestBroker({ rateLimits: rates })
    await broker.startAgent()
    const [a, b] = [await broker.principal('a', { tenant: 'acme' }), await broker.principal('b', { tenant: 'acme' })]
    await a.ensure('1')
    await a.ensure('2')
    expect((await a.refused({ thread_id: '3', mode: 'ensure' })).status).toBe(429)
    await b.ensure('4')
    const { status, headers, body } = await b.refused({ thread_id: '5', mode: 'ensure' })
    expect([status, body.error.details?.limit, headers.get('retry-after')]).toEqual([429, 'create', expect.stringMatching(/^\d+$/)])
    await a.ensure('1')
    await broker.ensure('another tenant')
    await broker.advance(Number(headers.get('retry-after')) * 1000)
    await b.ensure('5')
    await broker.stop()
  })
})
