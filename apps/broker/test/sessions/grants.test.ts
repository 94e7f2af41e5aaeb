import { decodeJwt } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { type Caller, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

const ALL = ['fs_read', 'fs_write', 'shell', 'exec']
const profiles = [
  { name: 'reads', capabilities: ['fs_read' as const] },
  { name: 'runs', capabilities: ['fs_read' as const, 'exec' as const] },
  { name: 'serves', capabilities: ['exec' as const, 'ports' as const] },
  { name: 'nothing', capabilities: [] },
]
const capsOf = (token: string) => decodeJwt(token).caps

describe('[4-75, C-56] what is asked for, and what is granted', () => {
  let broker: TestBroker
  let agent: FakeAgent
  beforeAll(async () => {
    broker = await startTestBroker({ profiles })
    agent = await broker.startAgent()
  })
  afterAll(() => broker.stop())

  let count = 0
  const ask = (requested_capabilities: string[] | undefined, profile = 'default', who: Caller = broker) =>
    who.negotiate({ thread_id: `asks-${++count}`, mode: 'ensure', profile, ...(requested_capabilities && { requested_capabilities }) })

  const granted: [string, string[] | undefined, string, string[], string[]][] = [
    ['absent', undefined, 'default', ALL, []],
    ['absent, by policy', undefined, 'runs', ['fs_read', 'exec'], []],
    ['absent, where policy allows nothing', undefined, 'nothing', [], []],
    ['[] is none', [], 'default', [], []],
    ['one', ['exec'], 'default', ['exec'], []],
    ['in any order', ['exec', 'fs_read', 'exec'], 'default', ['fs_read', 'exec'], []],
    ['aliases', ['execute', 'upload', 'download'], 'default', ['fs_read', 'fs_write', 'exec'], []],
    ['unknown ones are ignored', ['exec', 'fly', 'fly'], 'default', ['exec'], ['unknown_capability:fly']],
    [
      'names of JavaScript are unknown ones',
      ['exec', 'constructor', '__proto__'],
      'default',
      ['exec'],
      ['unknown_capability:constructor', 'unknown_capability:__proto__'],
    ],
    ['some refused', ['fs_read', 'shell'], 'runs', ['fs_read'], []],
    ['ports by their name', ['ports', 'exec'], 'default', ['exec', 'ports'], []],
    ['ports not without it', undefined, 'serves', ['exec'], []],
    ['ports, refused by policy', ['ports', 'exec'], 'runs', ['exec'], []],
    ['[] where policy allows nothing', [], 'nothing', [], []],
  ]
  test.each(granted)('%s', async (_, requested, profile, capabilities, warnings) => {
    const { status, body } = await ask(requested, profile)
    expect(status).toBe(200)
    expect(body.credentials.granted_capabilities).toEqual(capabilities)
    expect(capsOf(body.token)).toEqual(capabilities)
    expect(body.warnings).toEqual(warnings)
  })

  test.each([
    ['reads', ['exec', 'shell']],
    ['nothing', ['fs_read']],
    ['default', ['fly']],
    ['default', ['constructor', '__proto__']],
    ['reads', ['exec', 'fly']],
  ])(
    'nothing granted, by profile %s of %j: 403 CAPABILITY_DENIED that says what is allowed, and no sandbox',
    async (profile, requested) => {
      const made = agent.created
      const { status, body } = await ask(requested, profile)
      const { error } = body as unknown as Refusal
      expect([status, error.code, error.message]).toEqual([
        403,
        'CAPABILITY_DENIED',
        expect.stringMatching(/^requested_capabilities: .*allows/),
      ])
      expect(agent.created).toBe(made)
    },
  )

  test('all refused on a live session: 403, and the grant is as before', async () => {
    const { session_id } = await broker.ensure('refused-live', { profile: 'reads' })
    const refused = await broker.refused({ thread_id: 'refused-live', mode: 'get', requested_capabilities: ['exec'] })
    expect([refused.status, refused.body.error.code]).toEqual([403, 'CAPABILITY_DENIED'])
    expect(capsOf((await broker.refresh(session_id)).body.token)).toEqual(['fs_read'])
  })

  test('a key may be restricted: that bounds its own tokens, not those of another key of its principal', async () => {
    const wide = await broker.principal('two-keys')
    const narrow = await broker.principal('two-keys', { capabilities: ['fs_read', 'exec'] })
    const made = await wide.ensure('two-keys')
    expect((await narrow.ensure('two-keys')).credentials.granted_capabilities).toEqual(['fs_read', 'exec'])
    expect(capsOf((await narrow.refresh(made.session_id)).body.token)).toEqual(['fs_read', 'exec'])
    expect(capsOf((await wide.refresh(made.session_id)).body.token)).toEqual(ALL)
    expect((await ask(['shell'], 'default', narrow)).status).toBe(403)
    await broker.broker.settled()
    expect(agent.narrowed.has(`${made.session_id} two-keys`)).toBe(false)
    const { keys } = (await broker.get<{ keys: { principal: string; capabilities: string[] | null }[] }>('/v1/keys')).body
    expect(keys.filter(({ principal }) => principal === 'two-keys').map(({ capabilities }) => capabilities)).toEqual(
      expect.arrayContaining([null, ['fs_read', 'exec']]),
    )
  })

  test('refresh, refresh-token and GET issue no more than was negotiated', async () => {
    const { body } = await ask(['fs_read', 'exec'])
    const tokens = [
      (await broker.refresh(body.session_id)).body.token,
      (await broker.refreshToken(body.session_id)).body.token,
      (await broker.read(body.session_id)).body.token,
    ]
    expect(tokens.map(capsOf)).toEqual([
      ['fs_read', 'exec'],
      ['fs_read', 'exec'],
      ['fs_read', 'exec'],
    ])
    expect((await broker.refreshToken(body.session_id)).body.credentials.granted_capabilities).toEqual(['fs_read', 'exec'])
  })
})

test('[C-57] ports stay with a token that asked for them by name, and come to no other', async () => {
  const broker = await startTestBroker()
  try {
    await broker.startAgent()
    const plain = await broker.negotiate({ thread_id: 't', mode: 'ensure' })
    const named = await broker.negotiate({ thread_id: 't', mode: 'get', requested_capabilities: ['ports', 'exec'] })
    expect([capsOf(plain.body.token), capsOf(named.body.token)]).toEqual([ALL, ['exec', 'ports']])
    const { session_id } = plain.body
    const refreshed = async (requested_capabilities?: string[]) =>
      capsOf((await broker.refreshToken(session_id, requested_capabilities && { requested_capabilities })).body.token)
    expect(await refreshed(['ports', 'exec'])).toEqual(['exec', 'ports'])
    expect(await refreshed()).toEqual(ALL)
  } finally {
    await broker.stop()
  }
})

describe('[C-57] asking for less takes nothing from other tokens', () => {
  let broker: TestBroker
  let agent: FakeAgent
  beforeEach(async () => {
    broker = await startTestBroker({ profiles })
    agent = await broker.startAgent({ heartbeat: false })
  })
  afterEach(() => broker.stop())

  const ask = (requested_capabilities?: string[], who: Caller = broker) =>
    who.negotiate({ thread_id: 't', mode: 'ensure', ...(requested_capabilities && { requested_capabilities }) })
  const refreshed = async (session: string, who: Caller = broker, actor?: object) =>
    capsOf((await who.refresh(session, { actor })).body.token)
  const pushes = async () => {
    await broker.broker.settled()
    return agent.calls.filter((call) => call.endsWith('/revocations')).length
  }

  test('each token carries what was asked for with it, a refresh the widest of it; the agent is told nothing', async () => {
    const { session_id } = (await ask(['fs_read'])).body
    const steps: [string[] | undefined, string[], string[]][] = [
      [['fs_read'], ['fs_read'], ['fs_read']],
      [[], [], ['fs_read']],
      [['exec'], ['exec'], ['fs_read', 'exec']],
      [['fs_read'], ['fs_read'], ['fs_read', 'exec']],
      [undefined, ALL, ALL],
      [['shell'], ['shell'], ALL],
    ]
    for (const [asked, carried, grant] of steps) {
      const { body } = await ask(asked)
      expect([capsOf(body.token), body.credentials.granted_capabilities]).toEqual([carried, carried])
      expect(await refreshed(session_id)).toEqual(grant)
    }
    expect(await pushes()).toBe(0)
    expect((await agent.heartbeat()).revocations.grants).toEqual([])
  })

  test('a second client with the same key, beside one that asked for nothing in particular', async () => {
    const { session_id } = await broker.ensure('t')
    expect(capsOf((await ask(['fs_read'])).body.token)).toEqual(['fs_read'])
    expect(await refreshed(session_id)).toEqual(ALL)
    expect(await pushes()).toBe(0)
  })

  test.each([
    [['fs_read'], ['fs_read']],
    [
      ['fs_read', 'exec'],
      ['fs_read', 'exec'],
    ],
    [['execute', 'fly'], ['exec']],
    [['fs_read', 'shell'], ['fs_read']],
    [['shell'], []],
    [[], []],
  ])(
    'a refresh that says %j has no more than that of the actor’s grant, which stays as it is',
    async (requested_capabilities, expected) => {
      const { session_id } = (await ask(['fs_read', 'exec'])).body
      const { body } = await broker.refresh(session_id, { requested_capabilities })
      expect(capsOf(body.token)).toEqual(expected)
      const { credentials, token } = (await broker.refreshToken(session_id, { requested_capabilities })).body
      expect([capsOf(token), credentials.granted_capabilities]).toEqual([expected, expected])
      expect(await refreshed(session_id)).toEqual(['fs_read', 'exec'])
      expect(await pushes()).toBe(0)
    },
  )

  test('of requests that make the session together, the widest is granted', async () => {
    const asks = [['fs_read'], ['exec'], ['fs_read', 'shell'], ['fs_write']]
    const answers = await Promise.all(asks.map((asked) => ask(asked)))
    expect(answers.map(({ body }) => capsOf(body.token))).toEqual(asks)
    const { session_id } = answers[0]?.body ?? expect.fail('no answer')
    expect(await refreshed(session_id)).toEqual(ALL)
    expect(await pushes()).toBe(0)
  })

  test('of a narrow and an ordinary request that make the session together, the ordinary one is refreshed with all', async () => {
    const answers = await Promise.all([ask(['fs_read']), ask(), ask(['exec']), ask()])
    expect(answers.map(({ body }) => capsOf(body.token))).toEqual([['fs_read'], ALL, ['exec'], ALL])
    expect(await refreshed(answers[1]?.body.session_id ?? '')).toEqual(ALL)
  })

  test('a member has what it has asked for itself', async () => {
    const [alice, bob] = [await broker.principal('alice'), await broker.principal('bob')]
    const { session_id } = await alice.ensure('t', { members: ['bob'] })
    expect(capsOf((await ask(['fs_read'], bob)).body.token)).toEqual(['fs_read'])
    expect(await refreshed(session_id, bob)).toEqual(['fs_read'])
    expect(await refreshed(session_id, alice)).toEqual(ALL)
    expect(capsOf((await ask(undefined, bob)).body.token)).toEqual(ALL)
    expect(capsOf((await ask(['exec'], bob)).body.token)).toEqual(['exec'])
    expect(await refreshed(session_id, bob)).toEqual(ALL)
  })

  test('each actor has its own', async () => {
    const [one, two] = ['usr_1', 'usr_2'].map((id) => ({ type: 'human', id }))
    const acting = (actor: object | undefined, more: object = {}) => broker.negotiate({ thread_id: 't', mode: 'ensure', actor, ...more })
    const { session_id } = (await acting(one)).body
    await acting(two, { requested_capabilities: ['fs_read'] })
    expect(await refreshed(session_id, broker, two)).toEqual(['fs_read'])
    await acting(one, { requested_capabilities: ['exec'] })
    expect(await refreshed(session_id, broker, one)).toEqual(ALL)
    expect(await refreshed(session_id, broker, two)).toEqual(['fs_read'])
    expect(await pushes()).toBe(0)
  })
})

describe('[C-57] policy that allows less', () => {
  let broker: TestBroker
  let agent: FakeAgent
  beforeEach(async () => {
    broker = await startTestBroker({ profiles })
    agent = await broker.startAgent({ heartbeat: false })
  })
  afterEach(() => broker.stop())

  const pushes = () => agent.calls.filter((call) => call.endsWith('/revocations')).length
  /** The broker with another policy for the profile; the agent keeps its sandboxes. */
  const restart = async (capabilities: ('fs_read' | 'exec' | 'shell')[]) => {
    const { installId, sandboxes } = agent
    await broker.stop(true)
    broker = await startTestBroker({ dataDir: broker.dataDir, profiles: [{ name: 'runs', capabilities }] })
    agent = await broker.startAgent({ installId, sandboxes, heartbeat: false })
  }

  test.each([
    ['that asked for all', undefined],
    ['that asked for some', ['fs_read', 'exec']],
  ])('a token %s: the agent holds it to policy, also after it missed the push; later ones are dated after it', async (_, asked) => {
    const ask = (requested_capabilities?: string[]) =>
      broker.negotiate({ thread_id: 't', mode: 'ensure', profile: 'runs', ...(requested_capabilities && { requested_capabilities }) })
    const wide = (await ask(asked)).body
    await restart(['fs_read'])
    const { body } = await ask(['fs_read'])
    await broker.broker.settled()
    const entry = agent.narrowed.get(`${wide.session_id} operator`)
    expect([pushes(), entry?.caps]).toEqual([1, ['fs_read']])
    expect(decodeJwt(wide.token).iat).toBeLessThanOrEqual(entry?.before ?? 0)
    for (const { token } of [body, (await broker.refresh(wide.session_id)).body, (await ask()).body]) {
      expect(capsOf(token)).toEqual(['fs_read'])
      expect(decodeJwt(token).iat).toBeGreaterThan(entry?.before ?? Number.POSITIVE_INFINITY)
    }
    agent.narrowed.clear()
    const { revocations } = await agent.heartbeat()
    expect(revocations.grants).toEqual([
      { session_id: wide.session_id, sub: 'operator', caps: ['fs_read'], before: expect.any(Number), until: expect.any(Number) },
    ])
    agent.narrowed.clear()
    await agent.register()
    expect(agent.narrowed.get(`${wide.session_id} operator`)?.caps).toEqual(['fs_read'])
  })

  test('a profile that allows less after a restart: evaluated anew at each issuance, never wider than the session was made with', async () => {
    const made = await broker.ensure('t', { profile: 'runs' })
    await restart(['fs_read'])
    expect((await broker.refreshToken(made.session_id)).body.credentials.granted_capabilities).toEqual(['fs_read'])
    await broker.broker.settled()
    expect(agent.narrowed.get(`${made.session_id} operator`)?.caps).toEqual(['fs_read'])
    await broker.refresh(made.session_id)
    await broker.broker.settled()
    expect(pushes()).toBe(1)
    const exec = { requested_capabilities: ['exec'] }
    expect((await broker.refreshToken(made.session_id, exec)).body.credentials.granted_capabilities).toEqual([])
    await restart(['fs_read', 'exec', 'shell'])
    expect((await broker.refreshToken(made.session_id, exec)).body.credentials.granted_capabilities).toEqual(['exec'])
    expect((await broker.refreshToken(made.session_id)).body.credentials.granted_capabilities).toEqual(['fs_read', 'exec'])
  })
})
