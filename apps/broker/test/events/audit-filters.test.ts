import type { JournalEntry } from '@boxoffice/protocol'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

type Entry = Record<string, unknown> & { id: number; event: string; ts: string; session_id: string | null }

let broker: TestBroker
beforeEach(async () => {
  broker = await startTestBroker()
})
afterEach(() => broker.stop())

const read = async (query: string, key = broker.key) => {
  const { status, body } = await broker.as(key).get<{ entries: Entry[]; next_cursor: string | null }>(`/v1/audit${query}`)
  return { status, ...body }
}

test('[C-72, 2.14] each filter of the audit log, on what the dataplane did as well', async () => {
  const agent = await broker.startAgent({ heartbeat: false })
  const user = await broker.principal('user')
  const own = await user.ensure('a')
  const other = await broker.ensure('b')
  const before = new Date(Date.now() + 30_000).toISOString()
  await broker.advance(60_000)
  const access = { route: 'exec', ip: '10.0.0.9', request_id: 'req_of_client', sub: 'user', jti: 'jti_1', token_hash: 'h'.repeat(43) }
  const where = { age_ms: 0, session_id: own.session_id, sandbox_id: own.sandbox.id }
  const entries: JournalEntry[] = [
    { seq: 1, type: 'dataplane.open', ...where, data: { ...access, transport: 'ws' } },
    { seq: 2, type: 'dataplane.refused', ...where, data: { ...access, sub: null, jti: null, code: 'FORBIDDEN', reason: 'not yours' } },
    {
      seq: 3,
      type: 'dataplane.refused',
      ...where,
      session_id: null,
      sandbox_id: null,
      data: { ...access, sub: null, code: 'X', reason: '' },
    },
  ]
  await agent.heartbeat([], entries)

  const common = { request_id: 'req_of_client', tenant: 'default', thread_id: 'a', session_id: own.session_id, sandbox_id: own.sandbox.id }
  const kept = { ...common, ip: '10.0.0.9', token_hash: access.token_hash }
  expect((await read('?event=dataplane.open')).entries).toMatchObject([
    { ...kept, caller: 'user', actor: 'user', outcome: 'ok', code: null, data: { jti: 'jti_1', route: 'exec', transport: 'ws' } },
  ])
  expect((await read('?event=dataplane.refused')).entries).toMatchObject([
    { session_id: null, tenant: null, code: 'X' },
    { ...kept, caller: null, outcome: 'refused', code: 'FORBIDDEN', data: { reason: 'not yours', jti: null } },
  ])
  const all = (await read('?limit=1000')).entries
  const check = async (query: string, holds: (entry: Entry) => boolean) => {
    const { entries } = await read(`?limit=1000&${query}`)
    expect(entries, query).toEqual(all.filter(holds))
    expect(entries.length, query).toBeGreaterThan(0)
    expect(entries.length, query).toBeLessThan(all.length)
  }
  await check('event=sandbox.session.acquire', ({ event }) => event === 'sandbox.session.acquire')
  await check(`session_id=${other.session_id}`, ({ session_id }) => session_id === other.session_id)
  await check('thread_id=a', ({ thread_id }) => thread_id === 'a')
  await check('caller=user', ({ caller }) => caller === 'user')
  await check(`since=${before}`, ({ ts }) => ts >= before)
  await check(`until=${before}`, ({ ts }) => ts <= before)
  await check(`thread_id=a&event=dataplane.open&since=${before}`, ({ event }) => event === 'dataplane.open')

  const paged: Entry[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await read(`?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`)
    paged.push(...page.entries)
    cursor = page.next_cursor
  }
  expect(paged).toEqual(all)
  expect((await read('', user.key)).status).toBe(403)
  for (const query of ['?since=yesterday', '?limit=0', '?limit=1001', '?cursor=x']) expect((await read(query)).status, query).toBe(400)
})
