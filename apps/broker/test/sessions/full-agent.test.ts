import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { FakeAgent } from '../support/fake-agent.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeEach(async () => {
  broker = await startTestBroker()
  agent = await broker.startAgent({ heartbeat: false })
})
afterEach(() => broker.stop())

const fill = (one: FakeAgent, limit: string): void => {
  one.hooks.create = async () => ({ status: 503, code: 'AGENT_FULL', message: `no room: ${limit}`, details: { limit } })
}
const ensure = (thread_id: string) => ({ thread_id, mode: 'ensure' })

test('[C-45] a full agent: another one with room makes the sandbox; only when all are full it is 503 AGENT_FULL, with the limit', async () => {
  fill(agent, 'pids')
  const other = await broker.startAgent({ heartbeat: false })
  for (const thread of ['a', 'b', 'c']) expect(other.sandboxes.has((await broker.ensure(thread)).sandbox.id)).toBe(true)
  fill(other, 'memory')
  for (const thread of ['d', 'e']) {
    const { status, body, headers } = await broker.refused(ensure(thread))
    expect([status, body.error]).toEqual([
      503,
      expect.objectContaining({
        code: 'AGENT_FULL',
        aliases: ['BACKEND_UNAVAILABLE'],
        retryable: true,
        details: { limit: expect.stringMatching(/^(pids|memory)$/) },
      }),
    ])
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  }
  agent.hooks.create = async () => undefined
  expect(agent.sandboxes.has((await broker.ensure('d')).sandbox.id)).toBe(true)
})

test('[C-45] a scope whose workspace is on the full agent is not moved', async () => {
  const { session_id } = await broker.ensure('t')
  expect((await broker.delete(`/v1/sandbox/sessions/${session_id}?keep_workspace=true`)).status).toBe(204)
  await broker.broker.settled()
  const other = await broker.startAgent({ heartbeat: false })
  fill(agent, 'disk')
  const { status, body } = await broker.refused(ensure('t'))
  expect([status, body.error.code, body.error.details]).toEqual([503, 'AGENT_FULL', { limit: 'disk' }])
  expect(other.sandboxes.size).toBe(0)
  // The same refusal for whoever comes to the failed row later, and by its own code for whoever reads it.
  const failed = await broker.get<{ sessions: { reason: string }[] }>('/v1/sandbox/sessions?state=failed')
  expect(failed.body.sessions).toMatchObject([{ reason: 'AGENT_FULL: no room: disk' }])
})

test('[2-03] a session with an image of its client’s is not moved from a full agent to one without images', async () => {
  await using images = await startTestBroker({ agentTimeout: 600, images: { allowed: ['node:*'] } }).then((one) => ({
    ...one,
    [Symbol.asyncDispose]: () => one.stop(),
  }))
  const full = await images.startAgent({ heartbeat: false, images: true })
  fill(full, 'memory')
  const without = await images.startAgent({ heartbeat: false, images: false })
  const create = (id: string) => images.post<{ error: { code: string } }>(`/compat/box/v1/sessions/${id}`, { image: 'node:20' })
  const refused = await create('a')
  expect(refused.status).toBeGreaterThanOrEqual(400)
  expect(without.sandboxes.size).toBe(0)

  // The wish is in the row, for a broker that takes the session over.
  const second = await images.startAgent({ heartbeat: false, images: true })
  const needs: boolean[] = []
  second.hooks.create = async () => {
    await using store = await openSqliteStore(join(images.dataDir, 'broker.db'))
    needs.push(...(await store.sessions.provisioning()).map(({ needsImage }) => needsImage))
    return undefined
  }
  expect((await create('b')).status).toBe(201)
  expect([second.sandboxes.size, without.sandboxes.size, needs]).toEqual([1, 0, [true]])
})
