import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { resolveActor } from '../../src/access/actor.ts'
import { Credential } from '../../src/access/credential.ts'
import { hasRight, type Principal } from '../../src/access/principals.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

type User = Awaited<ReturnType<TestBroker['principal']>>
const WHO = {
  operator: { role: 'operator' },
  owner: {},
  member: {},
  releaser: { rights: ['release'] },
  stranger: {},
  'stranger with every right': { rights: ['release', 'act_as', 'box'] },
  'operator elsewhere': { role: 'operator', tenant: 'island' },
} as const
type Who = keyof typeof WHO

/** The scope is the owner's; `member` and `releaser` are its members. Each cell is the status. */
const MATRIX: [
  what: string,
  expected: Record<Who, number>,
  call: (user: User, sessionId: string, thread: string) => Promise<{ status: number }>,
][] = [
  ['ensure', cells(200, 200, 200, 200, 403, 403, 200), (user, _, thread) => user.negotiate({ thread_id: thread, mode: 'ensure' })],
  ['get', cells(200, 200, 200, 200, 403, 403, 404), (user, _, thread) => user.negotiate({ thread_id: thread, mode: 'get' })],
  ['read', cells(200, 200, 200, 200, 403, 403, 404), (user, id) => user.read(id)],
  ['refresh', cells(200, 200, 200, 200, 403, 403, 404), (user, id) => user.refresh(id)],
  ['refresh-token', cells(200, 200, 200, 200, 403, 403, 404), (user, id) => user.refreshToken(id)],
  ['heartbeat', cells(200, 200, 200, 200, 403, 403, 404), (user, id) => user.heartbeat(id)],
  [
    'members',
    cells(200, 200, 403, 403, 403, 403, 404),
    (user, id) => user.send('PUT', `/v1/sandbox/sessions/${id}/members`, { principals: ['member', 'releaser'] }),
  ],
  [
    'act for somebody else',
    cells(200, 403, 403, 403, 403, 403, 200),
    (user, _, thread) => user.negotiate({ thread_id: thread, mode: 'ensure', actor: { type: 'human', id: 'zoe' } }),
  ],
  [
    'act for oneself',
    cells(200, 200, 200, 200, 403, 403, 200),
    (user, _, thread) => user.negotiate({ thread_id: thread, mode: 'ensure', actor: { type: 'agent', id: nameOf(user) } }),
  ],
  ['release', cells(204, 204, 403, 204, 403, 403, 404), (user, id) => user.release(id)],
  ['delete the thread', cells(204, 204, 403, 403, 403, 403, 404), (user, _, thread) => user.delete(`/v1/sandbox/threads/${thread}`)],
  ['audit', cells(200, 403, 403, 403, 403, 403, 200), (user) => user.get('/v1/audit')],
  ['keys', cells(200, 403, 403, 403, 403, 403, 200), (user) => user.get('/v1/keys')],
  ['agents', cells(200, 403, 403, 403, 403, 403, 200), (user) => user.get('/v1/agents')],
  ['profiles', cells(200, 200, 200, 200, 200, 200, 200), (user) => user.get('/v1/profiles')],
]

function cells(...statuses: number[]): Record<Who, number> {
  return Object.fromEntries(Object.keys(WHO).map((who, i) => [who, statuses[i]])) as Record<Who, number>
}

let broker: TestBroker
const users = new Map<string, User>()
const nameOf = (user: User): string => [...users].find(([, one]) => one === user)?.[0] ?? ''
beforeAll(async () => {
  broker = await startTestBroker()
  await broker.startAgent()
  for (const [name, fields] of Object.entries(WHO)) users.set(name, await broker.principal(name, fields))
})
afterAll(() => broker.stop())

describe('[2.8] what each role and right may do', () => {
  test.each(MATRIX)('%s', async (_, expected, call) => {
    const statuses: Record<string, number> = {}
    for (const [name, user] of users) {
      const thread = `t-${crypto.randomUUID()}`
      const owner = users.get('owner') ?? user
      const { session_id } = await owner.ensure(thread, { members: ['member', 'releaser'] })
      statuses[name] = (await call(user, session_id, thread)).status
    }
    expect(statuses).toEqual(expected)
  })
})

const principal = (fields: Partial<Principal>): Principal => ({
  id: 'alice',
  tenant: 't',
  role: 'user',
  rights: new Set(),
  actorType: 'human',
  capabilities: null,
  credential: new Credential('x', 'authorization'),
  ...fields,
})

describe('[4-74, C-05] whom a request is made for', () => {
  const other = { type: 'agent', id: 'bob' } as const
  test.each([
    ['nobody named: the caller, of the type of its key', principal({ actorType: 'agent' }), undefined, { type: 'agent', id: 'alice' }],
    [
      'the caller itself, by the type that it claims',
      principal({}),
      { type: 'agent', id: 'alice' } as const,
      { type: 'agent', id: 'alice' },
    ],
    ['another, with the right', principal({ rights: new Set(['act_as'] as const) }), other, other],
    ['another, as an operator', principal({ role: 'operator' }), other, other],
  ])('%s', (_, who, actor, expected) => {
    expect(resolveActor(who, actor)).toEqual(expected)
  })

  test.each([
    ['without the right', principal({})],
    ['with other rights', principal({ rights: new Set(['release', 'box'] as const) })],
  ])('another, %s: 403 that names actor.id', (_, who) => {
    expect(() => resolveActor(who, other)).toThrow(
      expect.objectContaining({ code: 'FORBIDDEN', message: expect.stringMatching(/^actor\.id: /) }),
    )
  })

  test('an id that differs in one byte is another', () => {
    for (const id of ['Alice', 'alice ', 'alicé', 'alic\u0435']) expect(() => resolveActor(principal({}), { type: 'human', id })).toThrow()
  })
})

test('[2.8] rights: an operator has each, a user those of its key', () => {
  const RIGHTS = ['act_as', 'release', 'box'] as const
  for (const right of RIGHTS) {
    const holder = principal({ rights: new Set([right]) })
    expect(RIGHTS.filter((one) => hasRight(holder, one))).toEqual([right])
    expect(hasRight(principal({ role: 'operator' }), right)).toBe(true)
    expect(hasRight(principal({}), right)).toBe(false)
  }
})

test('[9] a principal in a log or an error does not show its credential', async () => {
  const { inspect } = await import('node:util')
  const who = principal({ credential: new Credential('bxo_canary', 'x-api-key') })
  expect(`${inspect(who, { depth: 9, showHidden: true })} ${JSON.stringify(who)} ${String(who.credential)}`).not.toContain('canary')
  expect(who.credential.header()).toEqual({ 'x-api-key': 'bxo_canary' })
})
