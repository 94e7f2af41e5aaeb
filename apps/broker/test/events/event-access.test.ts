import { request } from 'node:http'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { EventFeed } from '../../src/events/event-feed.ts'
import { EventStream } from '../../src/events/event-stream.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { type EventReader, readEvents } from '../support/event-reader.ts'
import { type FakeAgent, startFakeAgent } from '../support/fake-agent.ts'
import { gate, type Refusal, removeDir, startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
let readers: EventReader[]

beforeEach(async () => {
  readers = []
  broker = await startTestBroker({}, { eventTimes: { pingMs: 100 } })
  agent = await broker.startAgent()
})
afterEach(async () => {
  await Promise.all(readers.map((reader) => reader.close()))
  await broker.stop()
})

const follow = async (id: string, last?: number | string, key = broker.key) => {
  const reader = await readEvents(broker.url, key, id, last === undefined ? {} : { 'last-event-id': String(last) })
  readers.push(reader)
  return reader
}
const refused = async (id: string, key: string, headers: Record<string, string> = {}) => {
  const { status, body } = await broker.as(key).get<Refusal>(`/v1/sandbox/sessions/${id}/events`, headers)
  return `${status} ${body.error.code}`
}

test('[C-04] the events of a session are for whoever may read it', async () => {
  const { session_id: id } = await broker.ensure('t')
  const other = await broker.principal('somebody')
  const foreign = await broker.principal('foreigner', { tenant: 'elsewhere' })
  expect(await refused(id, 'bxo_unknown')).toBe('401 UNAUTHENTICATED')
  expect(await refused(id, other.key)).toBe('403 FORBIDDEN')
  expect(await refused(id, foreign.key)).toBe('404 BINDING_NOT_FOUND')
  expect(await refused('ssn_none', broker.key)).toBe('404 BINDING_NOT_FOUND')
  expect(await refused(id, broker.key, { 'last-event-id': 'x' })).toBe('400 INVALID_REQUEST')
  expect(await refused(`${id}`, foreign.key, { 'last-event-id': '1' })).toBe('404 BINDING_NOT_FOUND')
})

test('[2.4] after the end: from the beginning, or what is left; 204 for who has had all, 404 after 24 h', async () => {
  const { session_id: id } = await broker.ensure('t')
  await broker.release(id)
  const whole = await follow(id)
  const types = ['state provisioning', 'state active', 'lease', 'state terminated', 'released']
  expect([await whole.ended, whole.types()]).toEqual(['ended', types])
  const resumed = await follow(id, 3)
  expect([await resumed.ended, resumed.types()]).toEqual(['ended', ['state terminated', 'released']])
  const done = await follow(id, resumed.lastId())
  expect([done.status, await done.ended]).toEqual([204, 'ended'])

  const expired = await broker.ensure('expires')
  await broker.advance(28_801_000)
  const rest = await follow(expired.session_id, 3)
  expect([await rest.ended, rest.types()]).toEqual(['ended', ['state terminated']])
  expect(rest.events[0]?.data).toMatchObject({ reason: 'hard_ttl' })

  const lost = await broker.ensure('lost')
  for (const sandbox of agent.sandboxes.values()) if (sandbox.session_id === lost.session_id) sandbox.state = 'lost'
  await agent.heartbeat()
  const all = await follow(lost.session_id)
  expect([await all.ended, all.types()]).toEqual(['ended', ['state provisioning', 'state active', 'lease', 'state failed']])
  await broker.advance(25 * 3_600_000)
  expect(await refused(id, broker.key)).toBe('404 BINDING_NOT_FOUND')
})

test('an id that the session has not reached loses nothing of what follows', async () => {
  const { session_id: id } = await broker.ensure('t')
  const reader = await follow(id, 999)
  await broker.release(id)
  expect([await reader.ended, reader.types()]).toEqual(['ended', ['state terminated', 'released']])
})

test('[2.4] a comment while nothing happens; the id may stand in the query', async () => {
  const { session_id: id } = await broker.ensure('t')
  const response = await fetch(`${broker.url}/v1/sandbox/sessions/${id}/events?last_event_id=2`, {
    headers: { authorization: `Bearer ${broker.key}` },
  })
  let text = ''
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk
    if (text.includes(': ping\n\n: ping\n\n')) break
  }
  expect(text).toMatch(/^retry: 1000\n\nid: 3\nevent: lease\ndata: \{.*\}\n\n: ping\n\n/)
})

test('a follower whose key is revoked is let go', async () => {
  const { session_id: id } = await broker.ensure('t')
  const other = await broker.principal('second operator', { role: 'operator' })
  const reader = await follow(id, undefined, other.key)
  await reader.until(() => reader.comments.length > 0)
  await broker.delete(`/v1/keys/${other.keyId}`)
  expect(await reader.ended).toBe('ended')
  expect(await refused(id, other.key)).toBe('401 UNAUTHENTICATED')
})

test('HEAD tells the headers and opens no stream', async () => {
  const { session_id: id } = await broker.ensure('t')
  const response = await fetch(`${broker.url}/v1/sandbox/sessions/${id}/events`, {
    method: 'HEAD',
    headers: { authorization: `Bearer ${broker.key}` },
  })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
})

test('[2.14] a broker that stops ends its streams, and does not wait for them', async () => {
  const own = await startTestBroker()
  const ownAgent = await startFakeAgent({ brokerUrl: own.url, enrollToken: own.enrollToken })
  const { session_id: id } = await own.ensure('t')
  const reader = await readEvents(own.url, own.key, id)
  await reader.until(() => reader.events.length === 3)
  await ownAgent.close()
  await own.stop()
  // 'cut' is what the end of the drain's patience does.
  expect(await reader.ended).toBe('ended')
})

test('a reader that takes nothing is dropped, and nothing is kept for it', async () => {
  const directory = tempDir()
  const store = await openSqliteStore(`${directory}/broker.db`)
  const feed = new EventFeed(store.events)
  const dropped = gate()
  const stream = EventStream.open({
    store: store.events,
    feed,
    sessionId: 'ssn_x',
    principal: 'p',
    after: null,
    ended: false,
    admit: async () => {},
    drop: () => dropped.open(),
    pingMs: 10,
    stallMs: 50,
  })
  const reader = stream.getReader()
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('retry: 1000\n\n')
  await dropped.promise
  await reader.cancel()
  feed.close()
  await store[Symbol.asyncDispose]()
  removeDir(directory)
})

test('streams are limited per caller, and each that ends makes room', async () => {
  const directory = tempDir()
  const store = await openSqliteStore(`${directory}/broker.db`)
  const feed = new EventFeed(store.events)
  const watcher = { more() {}, end() {} }
  const leave = Array.from({ length: 1000 }, () => feed.watch('ssn_x', 'p', { ...watcher }))
  expect(() => feed.watch('ssn_y', 'p', watcher)).toThrowError(/too many event streams/)
  feed.watch('ssn_y', 'q', watcher)()
  for (const off of leave) off()
  feed.watch('ssn_y', 'p', watcher)()
  feed.close()
  expect(() => feed.watch('ssn_y', 'p', watcher)).toThrowError(/stopping/)
  await store[Symbol.asyncDispose]()
  removeDir(directory)
})

test('a stream that is cut by its reader leaves nothing behind', async () => {
  const { session_id: id } = await broker.ensure('t')
  const closed = gate()
  const outgoing = request(
    `${broker.url}/v1/sandbox/sessions/${id}/events`,
    { headers: { authorization: `Bearer ${broker.key}` } },
    (r) => {
      r.once('data', () => outgoing.destroy())
      r.on('error', () => {})
      r.once('close', () => closed.open())
    },
  )
  outgoing.on('error', () => {})
  outgoing.end()
  await closed.promise
  const reader = await follow(id)
  await reader.until(() => reader.events.length === 3)
})
