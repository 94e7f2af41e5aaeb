import { decodeJwt } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { FakeAgent } from '../support/fake-agent.ts'
import { type Caller, type Refusal, startTestBroker, type TestBroker } from '../support/test-broker.ts'

const ALL = ['fs_read', 'fs_write', 'shell', 'exec']
const profiles = [
  { name: 'reads', capabilities: ['fs_read' as const] },
  { name: 'runs', capabilities: ['fs_read' as const, 'exec' as const] },
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
    ['only unknown ones', ['fly'], 'default', [], ['unknown_capability:fly']],
    [
      'names of JavaScript',
      ['constructor', '__proto__'],
      'default',
      [],
      ['unknown_capability:constructor', 'unknown_capability:__proto__'],
    ],
    ['some refused', ['fs_read', 'shell'], 'runs', ['fs_read'], []],
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
  ])('all refused by profile %s: 403 CAPABILITY_DENIED that says what is allowed, and no sandbox', async (profile, requested) => {
    const made = agent.created
    const { status, body } = await ask(requested, profile)
    const { error } = body as unknown as Refusal
    expect([status, error.code, error.message]).toEqual([
      403,
      'CAPABILITY_DENIED',
      expect.stringMatching(/^requested_capabilities: .*allows/),
    ])
    expect(agent.created).toBe(made)
  })

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

describe('[C-57] narrowing', () => {
  let broker: TestBroker
  let agent: FakeAgent
  beforeEach(async () => {
    broker = await startTestBroker({ profiles })
    agent = await broker.startAgent({ heartbeat: false })
  })
  afterEach(() => broker.stop())

  const narrow = (requested_capabilities: string[]) => broker.negotiate({ thread_id: 't', mode: 'ensure', requested_capabilities })
  const pushes = () => agent.calls.filter((call) => call.endsWith('/revocations')).length

  test('negotiated narrower: the agent holds earlier tokens to it, and later ones are dated after them', async () => {
    const wide = await broker.ensure('t')
    const { body } = await narrow(['fs_read'])
    await broker.broker.settled()
    const entry = agent.narrowed.get(`${wide.session_id} operator`)
    expect(entry?.caps).toEqual(['fs_read'])
    expect(decodeJwt(wide.token).iat).toBeLessThanOrEqual(entry?.before ?? 0)
    for (const { token } of [body, (await broker.refresh(wide.session_id)).body, await broker.ensure('t')])
      expect(decodeJwt(token).iat).toBeGreaterThan(entry?.before ?? Number.POSITIVE_INFINITY)
  })

  test('the first grant of a new session, the same again, and a wider one: nothing to push', async () => {
    for (const caps of [['fs_read'], ['fs_read'], ['fs_read', 'exec'], ALL])
      expect((await narrow(caps)).body.credentials.granted_capabilities).toEqual(caps)
    await broker.ensure('t')
    await broker.broker.settled()
    expect(pushes()).toBe(0)
  })

  test('narrow, wide, narrow: each time that tokens in date carry more', async () => {
    const { session_id } = await broker.ensure('t')
    for (const caps of [['fs_read'], ALL, ['exec'], ['exec'], ['fs_read']]) await narrow(caps)
    await broker.broker.settled()
    expect(pushes()).toBe(3)
    expect(agent.narrowed.get(`${session_id} operator`)?.caps).toEqual(['fs_read'])
  })

  test('only the actor that it is about', async () => {
    const acting = (id: string, requested_capabilities?: string[]) =>
      broker.negotiate({
        thread_id: 't',
        mode: 'ensure',
        actor: { type: 'human', id },
        ...(requested_capabilities && { requested_capabilities }),
      })
    const { session_id } = (await acting('usr_1')).body
    await acting('usr_2')
    await acting('usr_1', ['fs_read'])
    await broker.broker.settled()
    expect([...agent.narrowed.keys()]).toEqual([`${session_id} usr_1`])
    expect(capsOf((await acting('usr_2')).body.token)).toEqual(ALL)
  })

  test('an agent that missed the push learns it from its next report, and at registration', async () => {
    const { session_id } = await broker.ensure('t')
    await narrow(['fs_read'])
    await broker.broker.settled()
    agent.narrowed.clear()
    const { revocations } = await agent.heartbeat()
    expect(revocations.grants).toEqual([
      { session_id, sub: 'operator', caps: ['fs_read'], before: expect.any(Number), until: expect.any(Number) },
    ])
    agent.narrowed.clear()
    await agent.register()
    expect(agent.narrowed.get(`${session_id} operator`)?.caps).toEqual(['fs_read'])
  })

  test('a profile that allows less after a restart: evaluated anew at each issuance, never wider than the session was made with', async () => {
    const made = await broker.ensure('t', { profile: 'runs' })
    const { installId, sandboxes } = agent
    await broker.stop(true)
    const restart = async (capabilities: ('fs_read' | 'exec' | 'shell')[]) => {
      broker = await startTestBroker({ dataDir: broker.dataDir, profiles: [{ name: 'runs', capabilities }] })
      agent = await broker.startAgent({ installId, sandboxes, heartbeat: false })
    }
    await restart(['fs_read'])
    expect((await broker.refreshToken(made.session_id)).body.credentials.granted_capabilities).toEqual(['fs_read'])
    await broker.broker.settled()
    expect(agent.narrowed.get(`${made.session_id} operator`)?.caps).toEqual(['fs_read'])
    await broker.refresh(made.session_id)
    await broker.broker.settled()
    expect(pushes()).toBe(1)
    await broker.stop(true)
    await restart(['fs_read', 'exec', 'shell'])
    expect((await broker.refreshToken(made.session_id)).body.credentials.granted_capabilities).toEqual(['fs_read', 'exec'])
  })
})
