import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: Awaited<ReturnType<TestBroker['startAgent']>>
beforeAll(async () => {
  broker = await startTestBroker()
  agent = await broker.startAgent()
})
afterAll(() => broker.stop())

type User = Awaited<ReturnType<TestBroker['principal']>>
const fresh = () => `t-${crypto.randomUUID()}`
const put = <T = { session_id: string; owner: string; principals: string[] }>(
  who: Pick<User, 'send'>,
  sessionId: string,
  principals: unknown,
) => who.send<T>('PUT', `/v1/sandbox/sessions/${sessionId}/members`, { principals })
const people = async () => ({
  alice: await broker.principal('alice'),
  bob: await broker.principal('bob'),
  carol: await broker.principal('carol'),
})

describe('[C-01] members', () => {
  test('A2 without grant 403; with grant 200, same sandbox; left out again: 403 on refresh, read and ensure', async () => {
    const { alice, bob } = await people()
    const thread = fresh()
    const made = await alice.ensure(thread)
    expect((await bob.refused({ thread_id: thread, mode: 'ensure' })).status).toBe(403)
    const { status, body } = await put(alice, made.session_id, ['bob'])
    expect([status, body]).toEqual([200, { session_id: made.session_id, owner: 'alice', principals: ['bob'] }])
    expect((await bob.ensure(thread)).sandbox.id).toBe(made.sandbox.id)
    expect((await bob.refresh(made.session_id)).status).toBe(200)
    await put(alice, made.session_id, [])
    expect((await bob.refresh(made.session_id)).status).toBe(403)
    expect((await bob.read(made.session_id)).status).toBe(403)
    expect((await bob.refused({ thread_id: thread, mode: 'get' })).status).toBe(403)
    expect((await alice.refresh(made.session_id)).status).toBe(200)
  })

  test('[C-57] who is left out holds tokens that open nothing: the agent is told at once, and again with each report', async () => {
    const { alice, bob } = await people()
    const thread = fresh()
    const made = await alice.ensure(thread, { members: ['bob', 'carol'] })
    const theirs = await bob.ensure(thread)
    expect(theirs.session_id).toBe(made.session_id)
    const narrowed = (grants: { session_id: string; sub: string; caps: string[] }[] | undefined) =>
      (grants ?? []).filter(({ session_id }) => session_id === made.session_id).map(({ sub, caps }) => [sub, caps])
    await put(alice, made.session_id, ['carol'])
    await agent.until(() => agent.calls.includes('POST /control/v1/revocations'))
    const { revocations } = await agent.heartbeat()
    expect(narrowed(revocations.grants)).toEqual([['bob', []]])
  })

  test('named again, a member gets a token that opens what it did before', async () => {
    const { alice, bob } = await people()
    const thread = fresh()
    const made = await alice.ensure(thread, { members: ['bob'] })
    await bob.ensure(thread)
    await put(alice, made.session_id, [])
    await put(alice, made.session_id, ['bob'])
    const { credentials } = await bob.ensure(thread)
    expect(credentials.granted_capabilities).toEqual(['fs_read', 'fs_write', 'shell', 'exec'])
  })

  test('the owner and an operator say so; a member, a stranger and one with the right "release" do not', async () => {
    const { alice, bob, carol } = await people()
    const releaser = await broker.principal('releaser', { rights: ['release', 'act_as'] })
    const made = await alice.ensure(fresh())
    expect((await put(broker, made.session_id, ['bob', 'releaser'])).status).toBe(200)
    for (const who of [bob, carol, releaser]) {
      const { status, body } = await put<Refusal>(who, made.session_id, ['mallory'])
      expect([status, body.error.code]).toEqual([403, 'FORBIDDEN'])
    }
    expect((await put(alice, made.session_id, ['carol', 'carol', 'alice'])).body.principals).toEqual(['carol'])
  })

  test('[4-31, 2.5] unknown and released sessions are 404, also those of other tenants; what has run out is 410', async () => {
    const { alice } = await people()
    const far = await broker.principal('far', { tenant: 'island' })
    const made = await far.ensure(fresh())
    const gone = await alice.ensure(fresh())
    await alice.release(gone.session_id)
    for (const id of ['ssn_00000000-0000-4000-8000-000000000000', made.session_id, gone.session_id])
      expect((await put<Refusal>(alice, id, ['bob'])).body.error.code).toBe('BINDING_NOT_FOUND')
    const old = await alice.ensure(fresh())
    await broker.advance(28_800_000)
    const { status, body } = await put<Refusal>(alice, old.session_id, ['bob'])
    expect([status, body.error.code]).toEqual([410, 'SESSION_EXPIRED'])
  })

  test.each([
    ['none', {}],
    ['no list', { principals: 'bob' }],
    ['an empty name', { principals: [''] }],
    ['too many', { principals: Array.from({ length: 257 }, (_, i) => `p${i}`) }],
  ])('%s: 400', async (_, body) => {
    const made = await broker.ensure(fresh())
    const answer = await broker.send<Refusal>('PUT', `/v1/sandbox/sessions/${made.session_id}/members`, body)
    expect([answer.status, answer.body.error.code]).toEqual([400, 'INVALID_REQUEST'])
    expect(answer.body.error.message).toContain('principals')
  })

  test('[C-02] negotiate names members too, by the owner; from anybody else it is 403', async () => {
    const { alice, bob, carol } = await people()
    const thread = fresh()
    const made = await alice.ensure(thread, { members: ['bob'] })
    expect((await bob.ensure(thread)).session_id).toBe(made.session_id)
    expect((await bob.refused({ thread_id: thread, mode: 'ensure', members: ['carol'] })).status).toBe(403)
    expect((await carol.refused({ thread_id: thread, mode: 'get' })).status).toBe(403)
    await alice.ensure(thread, { members: ['carol'] })
    expect((await carol.ensure(thread)).session_id).toBe(made.session_id)
    expect((await bob.refused({ thread_id: thread, mode: 'get' })).status).toBe(403)
    // Not said: as it was.
    await alice.ensure(thread)
    expect((await carol.refresh(made.session_id)).status).toBe(200)
  })

  test('a member sees the session in its list, and not any more when it is left out', async () => {
    const alice = await broker.principal('alice-l')
    const bob = await broker.principal('bob-l')
    const made = await alice.ensure(fresh(), { members: ['bob-l'] })
    const listed = async () => (await bob.get<{ sessions: { id: string }[] }>('/v1/sandbox/sessions')).body.sessions.map(({ id }) => id)
    expect(await listed()).toEqual([made.session_id])
    await put(alice, made.session_id, [])
    expect(await listed()).toEqual([])
  })

  test('[C-72] it is audited with caller and session', async () => {
    const { alice } = await people()
    const made = await alice.ensure(fresh())
    await put(alice, made.session_id, ['bob'])
    const { entries } = (
      await broker.get<{ entries: Record<string, unknown>[] }>(`/v1/audit?event=sandbox.members.set&session_id=${made.session_id}`)
    ).body
    expect(entries).toEqual([expect.objectContaining({ caller: 'alice', session_id: made.session_id, outcome: 'ok' })])
  })
})
