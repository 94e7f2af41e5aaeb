import type { EgressPolicy, SessionEgress } from '@boxoffice/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Caller, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

const RULE = { host: 'api.example', methods: ['GET'], inject: [{ header: 'authorization', secret: 'token', template: '{{secret}}' }] }
const PROFILES = [
  { name: 'free', network: 'proxy', egress: { allow: ['@packages'], rules: [RULE] } },
  { name: 'bare', network: 'proxy' },
  { name: 'held', network: 'proxy', egress: { allow: ['*.example'] }, locked: ['egress'] },
  { name: 'open', network: 'on', locked: ['egress'] },
]

let broker: TestBroker
let agent: Awaited<ReturnType<TestBroker['startAgent']>>
let ann: Caller
beforeAll(async () => {
  broker = await startTestBroker({ profiles: PROFILES as never, egressLists: { packages: ['packages.example', '*.cdn.example'] } })
  agent = await broker.startAgent({ egress: true })
  ann = await broker.principal('ann')
})
afterAll(() => broker.stop())

const fresh = () => `t-${crypto.randomUUID()}`
const pathOf = (id: string): string => `/v1/sandbox/sessions/${id}/egress`
const ensure = async (profile: string, who = ann) => {
  const { session_id: id, sandbox } = await who.ensure(fresh(), { profile })
  return { id, put: (policy: object) => who.send<SessionEgress>('PUT', pathOf(id), policy), sandboxId: sandbox.id }
}
const policyAt = (sandboxId: string): EgressPolicy | null | undefined => agent.sandboxes.get(sandboxId)?.egress.policy
const refusalOf = ({ status, body }: { status: number; body: unknown }) => [
  status,
  (body as Refusal).error.code,
  (body as Refusal).error.message,
]

test('the policy of the profile holds, with the hosts of its lists, until the session has one of its own', async () => {
  const { id, put, sandboxId } = await ensure('free')
  expect(policyAt(sandboxId)).toMatchObject({ allow: ['packages.example', '*.cdn.example'], rules: [RULE] })
  expect((await ann.get<SessionEgress>(pathOf(id))).body).toMatchObject({
    ...{ network: { requested: 'proxy', effective: 'proxy' }, source: 'profile', locked: false },
    policy: { allow: ['packages.example', '*.cdn.example'] },
  })
  const set = await put({ allow: ['other.example', '@packages'], rules: [RULE] })
  expect(set).toMatchObject({ status: 200, body: { source: 'session' } })
  expect(set.body.policy).toMatchObject({ allow: ['other.example', 'packages.example', '*.cdn.example'], rules: [RULE] })
  expect(policyAt(sandboxId)).toEqual(set.body.policy)
  expect((await ann.get<SessionEgress>(pathOf(id))).body).toEqual(set.body)

  const reset = await ann.delete<SessionEgress>(pathOf(id))
  expect(reset).toMatchObject({ status: 200, body: { source: 'profile', policy: { allow: ['packages.example', '*.cdn.example'] } } })
  expect(policyAt(sandboxId)).toEqual(reset.body.policy)
  const { entries } = (await broker.get<{ entries: { event: string }[] }>(`/v1/audit?session_id=${id}`)).body
  expect(entries.filter(({ event }) => event === 'sandbox.egress.set')).toHaveLength(2)
})

test('the session says which network it was to have, and has', async () => {
  const thread = fresh()
  const { body } = await ann.post<{ binding: object }>('/v1/sandbox/sessions', { thread_id: thread, mode: 'ensure', profile: 'open' })
  expect(body.binding).toMatchObject({ network: { requested: 'on', effective: 'proxy' } })
})

test('a sandbox without a proxy has no policy', async () => {
  const { put, id } = await ensure('default')
  expect((await ann.get<SessionEgress>(pathOf(id))).body).toMatchObject({ network: { requested: 'off', effective: 'off' }, policy: null })
  expect(refusalOf(await put({ allow: ['a.example'] }))).toEqual([501, 'UNSUPPORTED', expect.stringContaining('its network is off')])
})

test('a locked policy is narrowed, and never widened', async () => {
  const held = await ensure('held')
  expect((await held.put({ allow: ['a.example'] })).status).toBe(200)
  // Still within the profile's: what was given up comes back.
  expect((await held.put({ allow: ['*.example'], deny: ['x.example'] })).status).toBe(200)
  expect(refusalOf(await held.put({ allow: ['*'] }))).toEqual([403, 'FORBIDDEN', expect.stringContaining('allow: * is not in it')])
  expect(policyAt(held.sandboxId)).toMatchObject({ allow: ['*.example'], deny: ['x.example'] })
  const open = await ensure('open')
  expect((await open.put({ allow: ['a.example', '*'] })).status).toBe(200)
  expect((await open.put({ allow: ['8.8.8.8'] })).status).toBe(403)
})

test('who may not set secrets chooses no host for them, and nobody opens private addresses', async () => {
  const { put, id } = await ensure('free')
  expect((await put({ rules: [RULE] })).status).toBe(200)
  const elsewhere = { ...RULE, host: 'evil.example' }
  expect(refusalOf(await put({ rules: [elsewhere] }))).toEqual([403, 'FORBIDDEN', expect.stringContaining('evil.example')])
  const placeholder = { env: 'TOKEN', secret: 'token', hosts: ['evil.example'] }
  expect(refusalOf(await put({ placeholders: [placeholder] }))).toEqual([403, 'FORBIDDEN', expect.stringContaining('TOKEN')])
  expect((await broker.send('PUT', pathOf(id), { placeholders: [placeholder] })).status).toBe(200)
  expect((await put({ allow: ['evil.example'] })).status).toBe(200)
  expect((await put({ private_addresses: true })).status).toBe(403)
  expect((await broker.send('PUT', pathOf(id), { rules: [elsewhere] })).status).toBe(200)
  expect((await broker.send('PUT', pathOf(id), { private_addresses: true })).status).toBe(403)
})

test('others than the owner see it at most, and other tenants not even that', async () => {
  const { id } = await ensure('free')
  const bob = await broker.principal('bob')
  expect((await bob.get(pathOf(id))).status).toBe(403)
  expect((await bob.send('PUT', pathOf(id), {})).status).toBe(403)
  const stranger = await broker.principal('stranger', { tenant: 'elsewhere' })
  expect((await stranger.send('PUT', pathOf(id), {})).status).toBe(404)
})

const TOO_MANY = Array.from({ length: 1023 }, (_, n) => `h${n}.example`)

test.each([
  ['a URL', { allow: ['https://a.example'] }, 'allow'],
  ['no address', { allow: ['999.1.1.1'] }, 'allow'],
  ['an unknown list', { allow: ['@nowhere'] }, 'there is no list @nowhere (setting egress_lists); there are @packages'],
  ['an unknown field', { alow: ['a.example'] }, 'alow'],
  ['a header that frames', { rules: [{ host: 'a.example', inject: [{ header: 'host', secret: 'x' }] }] }, 'header'],
  ['too many hosts with a list', { allow: [...TOO_MANY, '@packages'] }, 'too many hosts'],
  ['a placeholder for every host', { placeholders: [{ env: 'T', secret: 's', hosts: ['*'] }] }, 'hosts'],
  ['a text', 'allow everything', ''],
] as const)('%s is refused with what is wrong', async (_, policy, why) => {
  const { put } = await ensure('bare')
  expect(refusalOf(await put(policy as object))).toEqual([400, 'INVALID_REQUEST', expect.stringContaining(why)])
})

test('an agent that does not hear of a change is told again with its next whole report', async () => {
  const { put, sandboxId, id } = await ensure('bare')
  agent.hooks.egress = async () => ({ status: 500, code: 'INTERNAL', message: 'not now' })
  expect((await put({ allow: ['a.example'] })).status).toBe(503)
  expect(policyAt(sandboxId)).toBeNull()
  agent.hooks.egress = async () => undefined
  expect((await agent.heartbeat()).decisions).toContainEqual({ sandbox_id: sandboxId, action: 'keep', again: true })
  await broker.broker.settled()
  expect(policyAt(sandboxId)).toMatchObject({ allow: ['a.example'] })
  expect((await agent.heartbeat()).decisions).toContainEqual({ sandbox_id: sandboxId, action: 'keep' })
  expect((await ann.get<SessionEgress>(pathOf(id))).body).toMatchObject({ source: 'session', policy: { allow: ['a.example'] } })
})

test('of changes that overtake one another the last one holds', async () => {
  const { put, sandboxId, id } = await ensure('bare')
  const gate = Promise.withResolvers<undefined>()
  const reached = Promise.withResolvers<void>()
  agent.hooks.egress = () => {
    reached.resolve()
    agent.hooks.egress = async () => undefined
    return gate.promise
  }
  const first = put({ allow: ['first.example'] })
  await reached.promise
  expect((await put({ allow: ['second.example'] })).status).toBe(200)
  gate.resolve(undefined)
  expect(await first).toMatchObject({ status: 200, body: { policy: { allow: ['second.example'] } } })
  expect(policyAt(sandboxId)).toMatchObject({ allow: ['second.example'] })
  expect((await ann.get<SessionEgress>(pathOf(id))).body.policy).toMatchObject({ allow: ['second.example'] })
})

test('a sandbox whose agent remembers a later order than the database has the new policy all the same', async () => {
  const { put, sandboxId } = await ensure('bare')
  const sandbox = agent.sandboxes.get(sandboxId) ?? expect.fail('no sandbox')
  sandbox.egress = { policy: null, revision: 1000 }
  expect((await put({ allow: ['a.example'] })).status).toBe(200)
  expect(policyAt(sandboxId)).toMatchObject({ allow: ['a.example'] })
})
