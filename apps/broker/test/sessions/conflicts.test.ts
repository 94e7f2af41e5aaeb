import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { gate, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker({ profiles: [{ name: 'keeps', persistent: true }] })
  agent = await broker.startAgent()
})
afterEach(() => broker.stop())

const create = (id: string, fields: object = {}, headers: Record<string, string> = {}) =>
  broker.negotiate({ thread_id: id, mode: 'ensure', ...fields }, headers)
const errorOf = ({ status, body }: { status: number; body: unknown }) => {
  const { error } = body as Refusal
  return { status, code: error.code, retryable: error.retryable }
}
const CONFLICT = { status: 409, code: 'SESSION_CONFLICT', retryable: false }

/** [4-12, C-20] What 409 means; (e), a broker that comes back with a stale fencing number, is in `processes.test.ts`. */
describe('[4-12, C-20] a conflict is', () => {
  test('(a) create_only where there is a session', async () => {
    await create('t')
    expect(errorOf(await create('t', { mode: 'create_only' }))).toEqual(CONFLICT)
  })

  test('(b) an idempotency key with another body, or of a session that has ended', async () => {
    const { body } = await create('t', {}, { 'idempotency-key': 'k' })
    expect(errorOf(await create('u', {}, { 'idempotency-key': 'k' }))).toEqual(CONFLICT)
    await broker.release(body.session_id)
    expect(errorOf(await create('t', {}, { 'idempotency-key': 'k' }))).toEqual(CONFLICT)
  })

  test('(c) another profile than the live one, where the caller will not have that', async () => {
    await create('t')
    expect(errorOf(await create('t', { profile: 'keeps', on_mismatch: 'fail' }))).toEqual(CONFLICT)
  })

  describe('(d) a scope whose earlier session still holds the workspace that the next one gets', () => {
    const ended = gate<undefined>
    const hold = () => {
      const destroyed = ended()
      agent.hooks.destroy = () => destroyed.promise
      return () => destroyed.open(undefined)
    }

    test.each(['ensure', 'create_only'])('%s waits as long as it was told to, then 409; afterwards it gets a new one', async (mode) => {
      const { body } = await create('t', { profile: 'keeps' })
      const letGo = hold()
      await broker.release(body.session_id)
      const refused = await create('t', { mode, profile: 'keeps' }, { prefer: 'wait=0' })
      expect(errorOf(refused)).toEqual(CONFLICT)
      expect((refused.body as unknown as Refusal).error.message).toContain('still ending')
      expect((await broker.negotiate({ thread_id: 't', mode: 'get' })).status).toBe(404) // nothing was begun
      const waits = create('t', { mode, profile: 'keeps' })
      letGo()
      const next = await waits
      expect(next.status).toBe(200)
      expect(next.body.session_id).not.toBe(body.session_id)
    })

    test('also where the workspace was kept by the release', async () => {
      const { body } = await create('t')
      const letGo = hold()
      await broker.delete(`/v1/sandbox/sessions/${body.session_id}?keep_workspace=true`)
      expect(errorOf(await create('t', {}, { prefer: 'wait=0' }))).toEqual(CONFLICT)
      letGo()
      expect((await create('t')).status).toBe(200)
    })

    test('[C-25] nobody waits for a sandbox whose workspace goes with it, nor for one of another scope', async () => {
      const [gone, kept] = [(await create('t')).body, (await create('u', { profile: 'keeps' })).body]
      const letGo = hold()
      for (const { session_id } of [gone, kept]) await broker.release(session_id)
      for (const id of ['t', 'v']) expect((await create(id)).status).toBe(200)
      letGo()
    })
  })

  test('never plain concurrent ensure', async () => {
    const all = await Promise.all(Array.from({ length: 50 }, () => create('t')))
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200]))
  })
})
