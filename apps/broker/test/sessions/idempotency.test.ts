import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { gate, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeAll(async () => {
  broker = await startTestBroker()
  agent = await broker.startAgent()
})
afterAll(() => broker.stop())

let count = 0
const newKey = () => `key-${++count}`
const ensure = (thread_id: string, key: string, more: Record<string, unknown> = {}) =>
  broker.negotiate({ thread_id, mode: 'ensure', ...more }, { 'idempotency-key': key })
const refusal = (reply: { status: number; body: unknown }) => [reply.status, (reply.body as Refusal).error.code] as const

describe('Idempotency-Key', () => {
  test('[4-10, C-12] same key and body: same ids, a fresh token, Idempotent-Replayed', async () => {
    const key = newKey()
    const first = await ensure('i1', key)
    const again = await ensure('i1', key)
    expect(first.headers.get('idempotent-replayed')).toBeNull()
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect([again.body.session_id, again.body.sandbox.id]).toEqual([first.body.session_id, first.body.sandbox.id])
    expect(again.body.token).not.toBe(first.body.token)
  })

  test('[C-13] the order of fields and white space do not make another body', async () => {
    const key = newKey()
    const { body } = await ensure('i2', key, { labels: { a: '1', b: '2' } })
    const response = await fetch(`${broker.url}/v1/sandbox/sessions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${broker.key}`, 'content-type': 'application/json', 'idempotency-key': key },
      body: '{ "labels": {"b":"2", "a":"1"},\n "mode":"ensure", "thread_id":"i2" }',
    })
    expect([response.status, ((await response.json()) as { session_id: string }).session_id]).toEqual([200, body.session_id])
  })

  test.each([
    ['another thread', 'i3-other', {}],
    ['another profile', 'i3', { profile: 'default' }],
    ['another unknown field', 'i3', { future: 1 }],
  ])('[C-13] same key, %s: 409 that names the key', async (_, thread, more) => {
    const key = newKey()
    await ensure('i3', key)
    const other = await ensure(thread, key, more)
    expect(refusal(other)).toEqual([409, 'SESSION_CONFLICT'])
    expect((other.body as unknown as Refusal).error).toMatchObject({ retryable: false, message: expect.stringContaining(key) })
  })

  test('[C-15] the key of a session that has ended: 409', async () => {
    const key = newKey()
    const { body } = await ensure('i4', key)
    await broker.release(body.session_id)
    const again = await ensure('i4', key)
    expect(refusal(again)).toEqual([409, 'SESSION_CONFLICT'])
    expect((again.body as unknown as Refusal).error.message).toContain('ended session')
    expect((await ensure('i4', newKey())).status).toBe(200)
  })

  test('[C-14] two at once: one creation; one with another body: 409', async () => {
    const ready = gate<undefined>()
    agent.hooks.create = () => ready.promise
    const [key, made] = [newKey(), agent.created]
    const both = [ensure('i5', key), ensure('i5', key)]
    await agent.until(() => agent.calls.some((call) => call.startsWith('PUT')))
    expect(refusal(await ensure('i5-other', key))).toEqual([409, 'SESSION_CONFLICT'])
    ready.open(undefined)
    const [one, two] = await Promise.all(both)
    expect([one?.status, two?.status, one?.body.session_id]).toEqual([200, 200, two?.body.session_id])
    expect(agent.created).toBe(made + 1)
    agent.hooks.create = async () => undefined
  })

  test('[C-14] a key belongs to its principal and tenant', async () => {
    const key = newKey()
    const [a, b] = await Promise.all([broker.principal('idem-a'), broker.principal('idem-b', { tenant: 'idem' })])
    const ids = await Promise.all(
      [a, b].map(
        async (who, i) => (await who.negotiate({ thread_id: `i6-${i}`, mode: 'ensure' }, { 'idempotency-key': key })).body.session_id,
      ),
    )
    expect(new Set(ids).size).toBe(2)
  })

  test('[C-14] need not be a UUID; 255 characters are fine, 256 are not', async () => {
    expect((await ensure('i7', 'x'.repeat(255))).status).toBe(200)
    expect(refusal(await ensure('i7', 'x'.repeat(256)))).toEqual([400, 'INVALID_REQUEST'])
  })

  test('[C-16] 503 is not stored: success under the same key', async () => {
    const key = newKey()
    agent.hooks.create = async () => ({ status: 503, code: 'BACKEND_UNAVAILABLE', message: 'engine down' })
    expect(refusal(await ensure('i8', key))).toEqual([503, 'PROVIDER_UNAVAILABLE'])
    agent.hooks.create = async () => undefined
    expect((await ensure('i8', key)).status).toBe(200)
  })

  test('[C-16] 423 is not stored: the repeated request gets the session that was starting', async () => {
    const key = newKey()
    const ready = gate<undefined>()
    agent.hooks.create = () => ready.promise
    const first = await broker.negotiate<Refusal>({ thread_id: 'i9', mode: 'ensure' }, { 'idempotency-key': key, prefer: 'wait=0' })
    expect(first.status).toBe(423)
    ready.open(undefined)
    const again = await ensure('i9', key)
    expect([again.status, again.body.session_id]).toEqual([200, first.body.error.details?.session_id])
    agent.hooks.create = async () => undefined
  })

  test('[C-16] ignored on get', async () => {
    const key = newKey()
    await ensure('i10', newKey())
    for (const thread_id of ['i10', 'i10-none']) await broker.negotiate({ thread_id, mode: 'get' }, { 'idempotency-key': key })
    expect((await ensure('i10', key)).status).toBe(200)
  })

  test('[C-14] forgotten after 24 h', async () => {
    const key = newKey()
    await ensure('i11', key)
    await broker.advance(24 * 3600_000 + 1000)
    expect((await ensure('i11-other', key)).status).toBe(200)
  })
})
