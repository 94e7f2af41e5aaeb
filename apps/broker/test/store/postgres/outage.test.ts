import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JournalEntry } from '@boxoffice/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type EventReader, readEvents } from '../../support/event-reader.ts'
import { networkTo } from '../../support/network-to.ts'
import { type Postgres, startPostgres } from '../../support/postgres.ts'
import { gate, startTestBroker, tempDir } from '../../support/test-broker.ts'

const LOST_AFTER = 120

let postgres: Postgres
let secretKeyFile: string
beforeAll(async () => {
  postgres = await startPostgres()
  secretKeyFile = join(tempDir(), 'secret-key')
  writeFileSync(secretKeyFile, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600 })
})
afterAll(() => postgres[Symbol.asyncDispose]())

async function start(parts: AsyncDisposableStack, databaseUrl: string) {
  const settings = { databaseUrl, secretKeyFile, enrollToken: 'enroll-token-of-tests', publicUrl: 'http://127.0.0.1:7070' }
  // The rounds of the reaper are those of the test.
  const broker = await startTestBroker({ ...settings, agentLostAfter: LOST_AFTER, reaperIntervalMs: 3_600_000 })
  parts.defer(() => broker.stop())
  return broker
}

const exit = (seq: number, { session_id, sandbox }: { session_id: string; sandbox: { id: string } }): JournalEntry => ({
  ...{ seq, age_ms: 0, type: 'exec.exit', session_id, sandbox_id: sandbox.id },
  data: {
    ...{ kind: 'exec', exec_id: `e${seq}`, exit_code: 0, signal: null, reason: 'exited', kill_cause: null, oom_killed: false },
    duration_ms: 5,
  },
})

test('[4-93] time without the database is no silence of an agent: its sessions live when the database is back', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await start(parts, await postgres.database())
  await broker.startAgent({ heartbeat: false })
  const { session_id } = await broker.ensure('t')
  const state = async () => (await broker.read(session_id, '?token=false')).body.binding.state
  await broker.broker.reap()
  await postgres.stop()
  await broker.broker.reap()
  const [agent] = broker.agents
  await expect(agent?.heartbeat()).rejects.toThrow('503')
  broker.pass(LOST_AFTER * 5000)
  await postgres.start()
  await broker.broker.reap()
  expect(await state()).toBe('idle')
  // What follows counts.
  broker.pass((LOST_AFTER - 10) * 1000)
  await broker.broker.reap()
  expect(await state()).toBe('idle')
  broker.pass(20_000)
  await broker.broker.reap()
  expect(await state()).toBe('failed')
})

test('[2.4] a session that ends as the database goes away has all its events when it is back, without a gap', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await start(parts, await postgres.database())
  const agent = await broker.startAgent({ heartbeat: false })
  const session = await broker.ensure('t')
  const readers: EventReader[] = []
  parts.defer(() => Promise.all(readers.map((reader) => reader.close())).then(() => undefined))
  const answers = gate<undefined>()
  agent.hooks.destroy = () => answers.promise
  agent.hooks.untold = () => 1
  await broker.broker.reap()
  expect((await broker.release(session.session_id)).status).toBe(204)
  await postgres.stop()
  answers.open(undefined)
  // It has answered, and nobody could write that.
  await broker.broker.settled()
  await broker.broker.reap()
  broker.pass(LOST_AFTER * 5000)
  await postgres.start()
  const asked = agent.calls.length
  await broker.broker.reap()
  await broker.broker.settled()
  expect(agent.calls.slice(asked)).toContain(`DELETE /control/v1/sandboxes/${session.sandbox.id}?reason=released`)
  await agent.heartbeat([], [exit(1, session)])
  const reader = await readEvents(broker.url, broker.key, session.session_id, { 'last-event-id': '3' })
  readers.push(reader)
  expect(await reader.ended).toBe('ended')
  expect(reader.types()).toEqual(['exec.exit', 'state terminated', 'released'])
  expect(reader.events.map(({ id }) => id)).toEqual([4, 5, 6])
})

test('[4-94] a sandbox that is ready while the database is away is not lost: it is written down when the database is back', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await start(parts, await postgres.database())
  const agent = await broker.startAgent({ heartbeat: false })
  const [asked, away] = [gate<string>(), gate<undefined>()]
  agent.hooks.create = (id) => {
    asked.open(id)
    return away.promise
  }
  const waiting = broker.ensure('t').catch((thrown: unknown) => thrown)
  const session = await asked.promise
  await postgres.stop()
  away.open(undefined)
  await expect(agent.heartbeat()).rejects.toThrow('503')
  await postgres.start()
  await waiting
  // 423 until it is written down.
  await expect
    .poll(
      () =>
        broker.ensure('t').then(
          ({ session_id }) => session_id,
          () => '',
        ),
      { timeout: 60_000 },
    )
    .not.toBe('')
  expect((await broker.ensure('t')).session_id).toBe(session)
})

test('a database that falls silent: requests are refused with 503 and Retry-After, and the broker ends', async () => {
  const url = new URL(await postgres.database())
  await using network = await networkTo(Number(url.port))
  url.port = String(network.port)
  const parts = new AsyncDisposableStack()
  const broker = await start(parts, url.href)
  const agent = await broker.startAgent({ heartbeat: false })
  const session = await broker.ensure('t')
  const held = gate<undefined>()
  agent.hooks.destroy = () => held.promise
  await broker.release(session.session_id)
  network.silence()
  const refused = await Promise.all([
    broker.refused({ thread_id: 't', mode: 'ensure' }),
    broker.get<{ error?: { code: string } }>('/v1/agents'),
    ...Array.from({ length: 20 }, () => broker.get('/v1/sandbox/sessions')),
  ])
  expect(refused.map(({ status, headers }) => [status, Number(headers.get('retry-after')) > 0])).toEqual(refused.map(() => [503, true]))
  // `ensure` may say that no agent is heard, which is so by then.
  expect(refused[0].body.error.code).toMatch(/^(BACKEND|PROVIDER)_UNAVAILABLE$/)
  expect(refused[1].body.error?.code).toBe('BACKEND_UNAVAILABLE')
  const waiting = [broker.get('/v1/agents'), broker.broker.reap()]
  held.open(undefined)
  await parts.disposeAsync()
  await Promise.allSettled(waiting)
})
