import { NegotiateResponse, SCOPE_TYPES } from '@boxoffice/protocol'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { gate, type Refusal, removeDir, startTestBroker, type TestBroker, tempDir } from '../support/test-broker.ts'

let broker: TestBroker
let agent: FakeAgent
beforeAll(async () => {
  broker = await startTestBroker()
  agent = await broker.startAgent()
})
afterAll(() => broker.stop())

const thread = (id: string) => ({ type: 'thread', id })
const code = ({ status, body }: { status: number; body: unknown }) => [status, (body as Refusal).error?.code]

describe('the full shape', () => {
  test('[4-70, 4-74, C-22] the request of the protocol, verbatim', async () => {
    const { status, body } = await broker.negotiate({
      scope: { type: 'thread', id: 'thr_123' },
      mode: 'ensure',
      actor: { type: 'human', id: 'usr_1' },
      requested_capabilities: ['fs_read', 'fs_write', 'shell', 'exec'],
      sandbox_hint: 'optional-existing-sandbox',
      provider_preference: 'auto',
    })
    expect(status).toBe(200)
    expect(NegotiateResponse.parse(body)).toEqual(body)
    expect(body.warnings).toEqual(['sandbox_hint_ignored'])
    expect(decodeJwt(body.token)).toMatchObject({ sub: 'usr_1', caps: ['fs_read', 'fs_write', 'shell', 'exec'] })
  })

  test('[4-76, 4-77, 4-78, C-06] every 200 has both shapes, with the same identity', async () => {
    const { body } = await broker.negotiate({ scope: thread('both-shapes'), mode: 'ensure' })
    expect(body.session_id).toBe(body.binding.id)
    expect(body.token).toBe(body.credentials.access_token)
    expect(body.expires_at).toBe(body.credentials.expires_at)
    expect(body.sandbox.id).toBe(body.binding.sandbox_id)
    expect(body.sandbox).toMatchObject({ http_base_url: body.dataplane.http_base_url, ws_base_url: body.dataplane.ws_base_url })
    expect(body.binding).toMatchObject({ scope: thread('both-shapes'), state: 'active', profile: 'default', generation: 1, reason: null })
    expect(body.policy).toEqual({
      idle_timeout_seconds: 900,
      hard_ttl_seconds: 28800,
      lease_seconds: 900,
      stop_after_seconds: 3600,
      on_lease_expiry: 'suspend',
    })
  })

  test('[4-71, C-03, C-10] four types with one id are four sessions; only a thread has a thread_id', async () => {
    const made = await Promise.all(
      SCOPE_TYPES.map(async (type) => (await broker.negotiate({ scope: { type, id: 'one-id' }, mode: 'ensure' })).body),
    )
    expect(new Set(made.map(({ session_id }) => session_id)).size).toBe(4)
    expect(made.map(({ thread_id }) => thread_id)).toEqual(['one-id', null, null, null])
    expect(made.map(({ token }) => decodeJwt(token).thread_id)).toEqual(['one-id', null, null, null])
    expect(code(await broker.refused({ scope: { type: 'team', id: 'one-id' }, mode: 'ensure' }))).toEqual([400, 'INVALID_REQUEST'])
  })

  test('[4-80] a thread and its scope are one binding', async () => {
    const made = await broker.ensure('one-binding')
    const { body } = await broker.negotiate({ scope: thread('one-binding'), mode: 'attach_only' })
    expect(body.binding.id).toBe(made.session_id)
  })

  test('[4-81, C-09] thread_id and scope: equal is fine, different is 400', async () => {
    const both = (id: string) => ({ thread_id: 'given-twice', scope: thread(id), mode: 'ensure' })
    expect((await broker.negotiate(both('given-twice'))).status).toBe(200)
    const refused = await broker.refused(both('another'))
    expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringMatching(/^scope: .*thread_id/)])
  })
})

describe('[4-72, 4-73, C-21] modes', () => {
  const shapes = {
    mvp: { of: (id: string) => ({ thread_id: id }), none: 'SESSION_NOT_FOUND', conflict: 'SESSION_CONFLICT' },
    full: { of: (id: string) => ({ scope: thread(id) }), none: 'BINDING_NOT_FOUND', conflict: 'BINDING_CONFLICT' },
  }
  describe.each(Object.entries(shapes))('%s shape', (shape, { of, none, conflict }) => {
    const fresh = (name: string) => of(`${shape}-${name}`)

    test.each(['get', 'attach_only'])('%s: 404 where there is none, the session where there is one', async (mode) => {
      expect(code(await broker.refused({ ...fresh(mode), mode }))).toEqual([404, none])
      const made = await broker.negotiate({ ...fresh(mode), mode: 'ensure' })
      const { status, body } = await broker.negotiate({ ...fresh(mode), mode })
      expect([status, body.session_id]).toEqual([200, made.body.session_id])
    })

    test('ensure: makes one where there is none, else gives the one', async () => {
      const both = [
        await broker.negotiate({ ...fresh('ensure'), mode: 'ensure' }),
        await broker.negotiate({ ...fresh('ensure'), mode: 'ensure' }),
      ]
      expect(both.map(({ status }) => status)).toEqual([200, 200])
      expect(both[0]?.body.session_id).toBe(both[1]?.body.session_id)
    })

    test('[C-20 a] create_only: makes one where there is none, else 409 that names the one', async () => {
      const made = await broker.negotiate({ ...fresh('create'), mode: 'create_only' })
      expect(made.status).toBe(200)
      const again = await broker.refused({ ...fresh('create'), mode: 'create_only' })
      expect(code(again)).toEqual([409, conflict])
      expect(again.body.error).toMatchObject({ retryable: false, details: { session_id: made.body.session_id, state: 'active' } })
      await broker.release(made.body.session_id)
      expect((await broker.negotiate({ ...fresh('create'), mode: 'create_only' })).status).toBe(200)
    })

    test('[C-20 a] two create_only that race: one 200, one 409, one sandbox', async () => {
      const made = agent.created
      for (let round = 0; round < 10; round++) {
        const both = [0, 1].map(() => broker.negotiate({ ...fresh(`race-${round}`), mode: 'create_only' }))
        expect((await Promise.all(both)).map(({ status }) => status).sort()).toEqual([200, 409])
      }
      expect(agent.created).toBe(made + 10)
    })
  })

  test('[C-20 a] create_only while the session starts: 409, and the other gets it', async () => {
    const ready = gate<undefined>()
    agent.hooks.create = () => ready.promise
    const first = broker.negotiate({ scope: thread('starting'), mode: 'create_only' })
    await agent.until(() => agent.calls.at(-1)?.startsWith('PUT') === true)
    const second = await broker.refused({ scope: thread('starting'), mode: 'create_only' })
    expect([...code(second), second.body.error.details?.state]).toEqual([409, 'BINDING_CONFLICT', 'provisioning'])
    ready.open(undefined)
    expect((await first).status).toBe(200)
    agent.hooks.create = async () => undefined
  })

  test('[C-12, C-14] create_only with a key: repeated and at once it is the same session, not a conflict', async () => {
    const create = () => broker.negotiate({ scope: thread('keyed'), mode: 'create_only' }, { 'idempotency-key': 'create-1' })
    const [one, two] = await Promise.all([create(), create()])
    const again = await create()
    expect([one.status, two.status, again.status]).toEqual([200, 200, 200])
    expect([two.body.session_id, again.body.session_id]).toEqual([one.body.session_id, one.body.session_id])
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(code(await broker.refused({ scope: thread('keyed'), mode: 'create_only' }, { 'idempotency-key': 'create-2' }))).toEqual([
      409,
      'BINDING_CONFLICT',
    ])
  })
})

test('[4-15, C-20 a, C-21] create_only races through two brokers on one database: one 200, one 409, one sandbox each', async () => {
  const dataDir = tempDir()
  const one = await startTestBroker({ dataDir, sharedDataDir: true })
  const two = await startTestBroker({ dataDir, sharedDataDir: true })
  const both = await one.startAgent()
  for (let round = 0; round < 10; round++) {
    const race = [one, one, two, two].map((at) => at.as(one.key).negotiate({ scope: thread(`race-${round}`), mode: 'create_only' }))
    expect((await Promise.all(race)).map(({ status }) => status).sort()).toEqual([200, 409, 409, 409])
  }
  expect(both.created).toBe(10)
  await two.stop()
  await one.stop()
  removeDir(dataDir)
})

describe('[4-74, C-05] actors', () => {
  test('absent: the caller; its own id: fine; another one: only with act_as', async () => {
    const [plain, acting] = await Promise.all([
      broker.principal('plain', { actor_type: 'agent' }),
      broker.principal('acting', { rights: ['act_as'] }),
    ])
    const sub = async (who: typeof plain, id: string, actor?: object) => {
      const reply = await who.negotiate({ thread_id: id, mode: 'ensure', ...(actor && { actor }) })
      return reply.status === 200 ? decodeJwt(reply.body.token).sub : code(reply)
    }
    expect(await sub(plain, 'actor-plain')).toBe('plain')
    expect(await sub(plain, 'actor-plain', { type: 'agent', id: 'plain' })).toBe('plain')
    expect(await sub(plain, 'actor-plain', { type: 'human', id: 'usr_1' })).toEqual([403, 'FORBIDDEN'])
    expect(await sub(acting, 'actor-acting', { type: 'human', id: 'usr_1' })).toBe('usr_1')
    const { entries } = (
      await broker.get<{ entries: { caller: string; actor: string }[] }>('/v1/audit?event=sandbox.session.acquire&thread_id=actor-acting')
    ).body
    expect(entries).toEqual([expect.objectContaining({ caller: 'acting', actor: 'usr_1' })])
  })

  test('[C-03] two actors share the sandbox, not the token', async () => {
    const as = async (id: string) => (await broker.negotiate({ thread_id: 'shared', mode: 'ensure', actor: { type: 'human', id } })).body
    const [a, b] = [await as('usr_a'), await as('usr_b')]
    expect(b.sandbox.id).toBe(a.sandbox.id)
    const claims = [decodeJwt(a.token), decodeJwt(b.token)]
    expect(claims.map(({ sub }) => sub)).toEqual(['usr_a', 'usr_b'])
    expect(claims[0]?.jti).not.toBe(claims[1]?.jti)
  })

  test('a refresh is for whom the caller negotiated for last, or for whom it says; without act_as for nobody else', async () => {
    const acting = await broker.principal('refreshing', { rights: ['act_as'] })
    const plain = await broker.principal('plain-refreshing')
    const as = (id: string) => acting.negotiate({ thread_id: 'refreshed-for', mode: 'ensure', actor: { type: 'human', id } })
    const { session_id } = (await as('usr_1')).body
    const subOf = async (body?: unknown) => decodeJwt((await acting.refresh(session_id, body)).body.token).sub
    expect(await subOf()).toBe('usr_1')
    await as('usr_2')
    expect(await subOf({})).toBe('usr_2')
    expect(await subOf({ actor: { type: 'human', id: 'usr_1' } })).toBe('usr_1')
    expect(decodeJwt((await acting.read(session_id)).body.token).sub).toBe('usr_2')
    await acting.ensure('refreshed-for')
    expect(await subOf()).toBe('refreshing')
    const own = await plain.ensure('not-acting')
    expect(code(await plain.refreshToken(own.session_id, { actor: { type: 'human', id: 'usr_1' } }))).toEqual([403, 'FORBIDDEN'])
  })
})

describe('[C-22, 4-54] sandbox_hint', () => {
  test('the sandbox of the scope: nothing to say; any other: ignored with a warning, 404 to attach_only', async () => {
    const [mine, other] = [await broker.ensure('hint-mine'), await broker.ensure('hint-other')]
    const hint = (mode: string, sandbox_hint: string) => broker.negotiate({ thread_id: 'hint-mine', mode, sandbox_hint })
    for (const mode of ['ensure', 'attach_only']) {
      const { status, body } = await hint(mode, mine.sandbox.id)
      expect([status, body.sandbox.id, body.warnings]).toEqual([200, mine.sandbox.id, []])
    }
    const ignored = await hint('ensure', other.sandbox.id)
    expect([ignored.body.sandbox.id, ignored.body.warnings]).toEqual([mine.sandbox.id, ['sandbox_hint_ignored']])
    expect(code(await hint('attach_only', other.sandbox.id))).toEqual([404, 'SESSION_NOT_FOUND'])
    const created = await broker.negotiate({ thread_id: 'hint-new', mode: 'create_only', sandbox_hint: other.sandbox.id })
    expect([created.status, created.body.warnings]).toEqual([200, ['sandbox_hint_ignored']])
    expect(created.body.sandbox.id).not.toBe(other.sandbox.id)
  })
})

describe('[4-79, 4-176] provider_preference', () => {
  test.each(['langsmith', 'e2b', 'daytona', 'modal', 'nonsense'])('%s: 400 until an agent has it', async (provider) => {
    const { status, body } = await broker.refused({ thread_id: 'p-unknown', mode: 'ensure', provider_preference: provider })
    expect([status, body.error.code, body.error.message]).toEqual([
      400,
      'INVALID_REQUEST',
      expect.stringMatching(/^provider_preference: .*auto/),
    ])
  })

  test('auto: any; known but not there: 503, and nothing is left', async () => {
    expect((await broker.negotiate({ thread_id: 'p-auto', mode: 'ensure', provider_preference: 'auto' })).status).toBe(200)
    const away = await broker.refused({ thread_id: 'p-away', mode: 'ensure', provider_preference: 'docker' })
    expect([away.status, away.body.error.code, away.headers.get('retry-after')]).toEqual([503, 'PROVIDER_UNAVAILABLE', expect.any(String)])
    expect(code(await broker.refused({ thread_id: 'p-away', mode: 'get' }))).toEqual([404, 'SESSION_NOT_FOUND'])
  })

  test('[C-76] a live session of another provider: a warning, or 409 with on_mismatch fail', async () => {
    await broker.ensure('p-live')
    const prefer = (more: object) => broker.negotiate({ thread_id: 'p-live', mode: 'ensure', provider_preference: 'docker', ...more })
    const warned = await prefer({})
    expect([warned.status, warned.body.sandbox.provider, warned.body.warnings]).toEqual([200, 'fake', ['provider_differs']])
    expect(code(await prefer({ on_mismatch: 'fail' }))).toEqual([409, 'SESSION_CONFLICT'])
    expect(code(await prefer({ mode: 'create_only' }))).toEqual([409, 'SESSION_CONFLICT'])
  })
})

test('[4-79, 4-176] with agents of two providers each gets what asks for it, also when the first agent is gone', async () => {
  const two = await startTestBroker()
  const [one, other] = [await two.startAgent({ providerName: 'modal' }), await two.startAgent({ providerName: 'local' })]
  for (let i = 0; i < 4; i++)
    for (const provider of ['modal', 'local'])
      expect((await two.ensure(`${provider}-${i}`, { provider_preference: provider })).sandbox.provider).toBe(provider)
  expect([one.created, other.created]).toEqual([4, 4])
  await one.close()
  const refused = await two.refused({ thread_id: 'modal-gone', mode: 'ensure', provider_preference: 'modal' })
  expect(code(refused)).toEqual([503, 'PROVIDER_UNAVAILABLE'])
  expect(other.created).toBe(4)
  await two.stop()
})

describe('[C-75, C-76] a live session of another profile', () => {
  test('profile_changed: the configuration has changed since it was made; it keeps its limits', async () => {
    const first = await startTestBroker({ profiles: [{ name: 'p', memory_mb: 256 }] })
    const host = await first.startAgent()
    const made = await first.ensure('t', { profile: 'p' })
    await first.stop(true)
    const second = await startTestBroker({ dataDir: first.dataDir, profiles: [{ name: 'p', memory_mb: 512 }] })
    await second.startAgent({ installId: host.installId, sandboxes: host.sandboxes })
    const again = await second.ensure('t', { profile: 'p' })
    expect([again.session_id, again.warnings]).toEqual([made.session_id, ['profile_changed']])
    expect((await second.ensure('t')).warnings).toEqual([])
    for (const more of [{ on_mismatch: 'fail' }, { mode: 'create_only' }])
      expect(code(await second.refused({ thread_id: 't', mode: 'ensure', profile: 'p', ...more }))).toEqual([409, 'SESSION_CONFLICT'])
    await second.stop()
  })
})

describe('[C-01] members by the owner', () => {
  test('those it names may use the thread; a member may not say who', async () => {
    const [owner, guest] = await Promise.all([broker.principal('m-owner'), broker.principal('m-guest')])
    const made = await owner.ensure('with-members', { members: ['m-guest', 'm-guest'] })
    expect((await guest.ensure('with-members')).session_id).toBe(made.session_id)
    expect(code(await guest.negotiate({ thread_id: 'with-members', mode: 'ensure', members: ['m-guest', 'x'] }))).toEqual([
      403,
      'FORBIDDEN',
    ])
    expect(agent.narrowed.has(`${made.session_id} m-guest`)).toBe(false)
    await owner.ensure('with-members', { members: [] })
    expect(code(await guest.negotiate({ thread_id: 'with-members', mode: 'ensure' }))).toEqual([403, 'FORBIDDEN'])
    expect(code(await guest.refresh(made.session_id))).toEqual([403, 'FORBIDDEN']) // [C-26]
    await broker.broker.settled()
    expect(agent.narrowed.get(`${made.session_id} m-guest`)?.caps).toEqual([])
  })

  test('a member who names members makes nothing', async () => {
    const [owner, guest] = await Promise.all([broker.principal('n-owner'), broker.principal('n-guest')])
    const { session_id } = await owner.ensure('none-made', { members: ['n-guest'] })
    await owner.release(session_id)
    const made = agent.created
    expect(code(await guest.negotiate({ thread_id: 'none-made', mode: 'ensure', members: [] }))).toEqual([403, 'FORBIDDEN'])
    expect(agent.created).toBe(made)
  })
})

test('120 sessions in 3 pages, without repeats while others are created', async () => {
  const lister = await broker.principal('lists-120')
  for (let i = 0; i < 120; i += 20) await Promise.all(Array.from({ length: 20 }, (_, j) => lister.ensure(`listed-${i + j}`)))
  const ids: string[] = []
  let cursor: string | null = ''
  let pages = 0
  while (cursor !== null) {
    const query: string = cursor === '' ? '' : `?cursor=${cursor}`
    const [page] = await Promise.all([
      lister.get<{ sessions: { id: string }[]; next_cursor: string | null }>(`/v1/sandbox/sessions${query}`),
      ...Array.from({ length: 5 }, (_, i) => lister.ensure(`later-${pages}-${i}`)),
    ])
    if (pages === 0) expect(page.body.sessions).toHaveLength(50)
    ids.push(...page.body.sessions.map(({ id }) => id))
    cursor = page.body.next_cursor
    pages++
  }
  expect(pages).toBe(3)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.length).toBeGreaterThanOrEqual(120)
})
