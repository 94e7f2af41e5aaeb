import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { gate, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let agent: Awaited<ReturnType<TestBroker['startAgent']>>
beforeAll(async () => {
  broker = await startTestBroker()
  agent = await broker.startAgent()
})
afterAll(() => broker.stop())

type User = Awaited<ReturnType<TestBroker['principal']>>
const fresh = () => `t-${crypto.randomUUID()}`
const remove = (who: Pick<User, 'delete'>, thread: string) => who.delete<Refusal>(`/v1/sandbox/threads/${encodeURIComponent(thread)}`)
const people = async () => ({ alice: await broker.principal('alice'), bob: await broker.principal('bob') })

describe('[C-74] a deleted thread', () => {
  test('ends its session and forgets owner and members: another principal may claim it, alone', async () => {
    const { alice, bob } = await people()
    const carol = await broker.principal('carol')
    const thread = fresh()
    const made = await alice.ensure(thread, { members: ['carol'] })
    await carol.ensure(thread)
    const { status, body } = await remove(alice, thread)
    expect([status, body]).toEqual([204, undefined])
    await agent.until(() => !agent.sandboxes.has(made.sandbox.id) && agent.revoked.get(made.session_id) === 'released')
    for (const who of [alice, carol]) expect((await who.read(made.session_id)).status).toBe(404)
    const theirs = await bob.ensure(thread)
    expect(theirs.session_id).not.toBe(made.session_id)
    for (const who of [alice, carol]) expect((await who.refused({ thread_id: thread, mode: 'get' })).status).toBe(403)
  })

  test('is 204 once, then 404; one that nobody knows is 404, by its MVP name', async () => {
    const { alice } = await people()
    const thread = fresh()
    await alice.ensure(thread)
    expect((await remove(alice, thread)).status).toBe(204)
    for (const id of [thread, fresh()]) {
      const { status, body } = await remove(alice, id)
      expect([status, body.error.code]).toEqual([404, 'SESSION_NOT_FOUND'])
    }
  })

  test('takes its owner or an operator: not a member, not a stranger, not the right "release"', async () => {
    const { alice, bob } = await people()
    const releaser = await broker.principal('releaser', { rights: ['release'] })
    const thread = fresh()
    const made = await alice.ensure(thread, { members: ['bob', 'releaser'] })
    const stranger = await broker.principal('stranger')
    for (const who of [bob, releaser, stranger]) {
      const { status, body } = await remove(who, thread)
      expect([status, body.error.code]).toEqual([403, 'FORBIDDEN'])
    }
    expect((await alice.refresh(made.session_id)).status).toBe(200)
    expect((await remove(broker, thread)).status).toBe(204)
  })

  test('[C-04] of another tenant it is a thread of its own', async () => {
    const { alice } = await people()
    const far = await broker.principal('far', { tenant: 'island', role: 'operator' })
    const thread = fresh()
    const made = await alice.ensure(thread)
    expect((await remove(far, thread)).status).toBe(404)
    expect((await alice.refresh(made.session_id)).status).toBe(200)
  })

  test('without a live session forgets the owner all the same', async () => {
    const { alice, bob } = await people()
    const thread = fresh()
    const made = await alice.ensure(thread)
    await alice.release(made.session_id)
    expect((await bob.refused({ thread_id: thread, mode: 'ensure' })).status).toBe(403)
    expect((await remove(alice, thread)).status).toBe(204)
    await bob.ensure(thread)
  })

  test('takes the kept workspace with it: the next owner starts empty', async () => {
    const { alice, bob } = await people()
    const thread = fresh()
    const made = await alice.ensure(thread)
    expect((await alice.delete(`/v1/sandbox/sessions/${made.session_id}?keep_workspace=true`)).status).toBe(204)
    await agent.until(() => !agent.sandboxes.has(made.sandbox.id))
    expect((await remove(alice, thread)).status).toBe(204)
    const theirs = await bob.ensure(thread)
    expect(agent.sandboxes.get(theirs.sandbox.id)?.request).toMatchObject({ discard_workspace: true, kept_sessions: [] })
  })

  test('what failed or ran out before is not told to the next owner', async () => {
    const { alice, bob } = await people()
    const thread = fresh()
    agent.hooks.create = async () => ({ status: 400, code: 'INVALID_REQUEST', message: 'this image does not start' })
    await alice.refused({ thread_id: thread, mode: 'ensure', labels: { secret: 'plan' } })
    agent.hooks.create = async () => undefined
    const { body } = await alice.get<{ sessions: { id: string }[] }>(`/v1/sandbox/sessions?state=failed&scope_id=${thread}`)
    const failed = body.sessions[0]?.id ?? ''
    expect((await alice.read(failed)).status).toBe(200)
    await remove(alice, thread)
    await bob.ensure(thread)
    for (const who of [alice, bob]) expect((await who.read(failed)).status).toBe(who === bob ? 404 : 403)
  })

  test('ends a sandbox that is still starting', async () => {
    const { alice, bob } = await people()
    const thread = fresh()
    const slow = gate<undefined>()
    agent.hooks.create = () => slow.promise
    const made = agent.created
    const { status } = await alice.refused({ thread_id: thread, mode: 'ensure' }, { prefer: 'wait=0' })
    expect(status).toBe(423)
    expect((await remove(alice, thread)).status).toBe(204)
    agent.hooks.create = async () => undefined
    await bob.ensure(thread)
    slow.open(undefined)
    await agent.until(() => agent.created >= made + 2)
    await broker.broker.settled()
    const { body } = await broker.get<{ sessions: unknown[] }>(`/v1/sandbox/sessions?scope_id=${thread}`)
    expect(body.sessions).toHaveLength(1)
  })

  test.each(['a/b', 'a%2Fb', 'ä ö', 'x?y#z', '100%', 'a\\b'])('is found by its exact id in the path: %s', async (thread) => {
    const { alice } = await people()
    const others = ['a/b', 'a%2Fb', 'a%252Fb', 'a'].filter((other) => other !== thread)
    for (const id of [thread, ...others]) await alice.ensure(id)
    expect((await remove(alice, thread)).status).toBe(204)
    expect((await alice.refused({ thread_id: thread, mode: 'get' })).status).toBe(404)
    for (const other of others) expect((await alice.negotiate({ thread_id: other, mode: 'get' })).status).toBe(200)
    for (const other of others) await remove(alice, other)
  })

  test('with an id that none can have: 400', async () => {
    const { status, body } = await broker.delete<Refusal>(`/v1/sandbox/threads/${encodeURIComponent(' t')}`)
    expect([status, body.error.code]).toEqual([400, 'INVALID_REQUEST'])
  })

  test('raced with ensures of its members, never leaves a live session that is nobody’s', async () => {
    const { alice, bob } = await people()
    for (let round = 0; round < 10; round++) {
      const thread = fresh()
      await alice.ensure(thread, { members: ['bob'] })
      const answers = await Promise.all([
        remove(alice, thread),
        ...Array.from({ length: 4 }, () => bob.negotiate({ thread_id: thread, mode: 'ensure' })),
        remove(broker, thread),
      ])
      expect(answers.map(({ status }) => status).filter((status) => status >= 500)).toEqual([])
      // Whose it is now, if anybody's, is who made the session: nobody else gets in.
      const { status } = await alice.negotiate({ thread_id: thread, mode: 'get' })
      const theirs = await bob.negotiate({ thread_id: thread, mode: 'get' })
      expect([status, theirs.status]).toEqual(theirs.status === 200 ? [403, 200] : [404, 404])
    }
  })

  test('[C-72] is audited with the caller', async () => {
    const { alice } = await people()
    const thread = fresh()
    await alice.ensure(thread)
    await remove(alice, thread)
    const { entries } = (await broker.get<{ entries: { event: string; caller: string }[] }>(`/v1/audit?thread_id=${thread}&caller=alice`))
      .body
    expect(entries.map(({ event }) => event)).toEqual(expect.arrayContaining(['sandbox.thread.delete', 'sandbox.session.release']))
  })
})
