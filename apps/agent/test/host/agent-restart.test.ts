import { randomUUID } from 'node:crypto'
import { chmod, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { AgentReady } from '../../src/index.ts'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import type { Provider } from '../../src/sandbox/provider.ts'
import { TestAgents } from './support/agents.ts'
import { silent } from './support/host.ts'

const agents = TestAgents.forEachTest()

describe('restart', () => {
  test('sandboxes stay, are reported, and are kept or removed as the broker says', async () => {
    const { agent, ...first } = await agents.begin({ destroyOnExit: false })
    const kept = (await agents.create(first, 's1')).body?.sandbox_id
    await agents.create(first, 's2')
    await agents.end(agent)
    agents.broker.keeps = new Set(['s1'])
    const ready = await agents.begin()
    expect(agents.broker.registrations[1]?.sandboxes.map(({ session_id, state }) => [session_id, state]).sort()).toEqual([
      ['s1', 'running'],
      ['s2', 'running'],
    ])
    await agents.broker.heartbeat(({ sandboxes }) => sandboxes.length === 1)
    expect((await agents.create(ready, 's1')).body?.sandbox_id).toBe(kept)
  })

  test('a sandbox that is not as configured any more is lost, and says why', async () => {
    const { agent, ...first } = await agents.begin({ destroyOnExit: false })
    await agents.create(first, 's1')
    await agents.end(agent)
    await agents.begin({ defaultImage: 'another/image' })
    expect(agents.broker.registrations[1]?.sandboxes).toMatchObject([{ session_id: 's1', state: 'lost', reason: 'config_drift' }])
  })

  test('a second agent on the same data directory is refused and names the first', async () => {
    await agents.begin()
    await expect(agents.begin()).rejects.toThrow(`pid ${process.pid}`)
  })

  test('a data directory whose parents are closed, and whose path is too long for a socket, still works', async () => {
    const closed = join(agents.dataDir, 'closed')
    const deep = join(closed, 'a-rather-long-name-of-a-directory/another-one-of-the-kind/data')
    await mkdir(deep, { recursive: true })
    await chmod(closed, 0o700)
    for (const isolation of ['bubblewrap', 'none']) {
      const { agent, ...ready } = await agents.begin({ dataDir: deep, isolation })
      expect(await agents.create(ready, 's1')).toMatchObject({ status: 200, body: { isolation } })
      await agents.end(agent)
    }
    expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toContain(deep)
  })
})

/** Status and code of a dataplane request with a token of these claims. */
const ask = async (ready: AgentReady, sandboxId: string, claims: Record<string, unknown> = {}): Promise<[number, string | undefined]> => {
  const now = Math.floor(Date.now() / 1000)
  const token = agents.broker.sign({
    iss: agents.broker.url,
    aud: sandboxId,
    sandbox_id: sandboxId,
    sub: 'human',
    sid: 's1',
    thread_id: null,
    tid: 't',
    caps: ['exec'],
    gen: 1,
    iat: now,
    exp: now + 600,
    jti: randomUUID(),
    ver: 1,
    ...claims,
  })
  const response = await fetch(`${ready.url}/sandboxes/${sandboxId}/v1/execs`, { headers: { authorization: `Bearer ${token}` } })
  return [response.status, ((await response.json()) as { error?: { code: string } }).error?.code]
}

describe('[C-77] the clock of the broker', () => {
  const HOUR_MS = 3600_000
  test.each([
    ['ahead', HOUR_MS],
    ['behind', -HOUR_MS],
  ])(
    'an agent whose own clock is an hour %s takes good tokens and refuses bad ones, also when it comes back without its broker',
    async (_, skew) => {
      const overrides = { wall: () => Date.now() + skew }
      const { agent, ...first } = await agents.begin({ destroyOnExit: false }, overrides)
      expect(Math.abs(Date.parse(String(agents.broker.registrations[0]?.clock)) - Date.now() - skew)).toBeLessThan(60_000)
      const sandbox = String((await agents.create(first, 's1')).body?.sandbox_id)
      const judged = async (ready: AgentReady): Promise<void> => {
        const now = Math.floor(Date.now() / 1000)
        expect(await ask(ready, sandbox)).toEqual([200, undefined])
        expect(await ask(ready, sandbox, { exp: now - 60 })).toEqual([401, 'TOKEN_EXPIRED'])
        expect(await ask(ready, sandbox, { iat: now + 60 })).toEqual([401, 'UNAUTHENTICATED'])
      }
      await judged(first)
      await agents.end(agent)
      agents.broker.refuses = { status: 503 }
      const ready = await agents.begin({}, overrides)
      expect(ready.agentId).toBeUndefined()
      await judged(ready)
    },
  )

  test('a clock that is set while the agent runs changes nothing, and is known at the next start', async () => {
    let skew = 0
    const overrides = { wall: () => Date.now() + skew }
    const { agent, ...first } = await agents.begin({ destroyOnExit: false }, overrides)
    const sandbox = String((await agents.create(first, 's1')).body?.sandbox_id)
    skew = -HOUR_MS
    expect(await ask(first, sandbox)).toEqual([200, undefined])
    const beats = agents.broker.heartbeats.length
    await agents.broker.heartbeat(() => agents.broker.heartbeats.length > beats + 1)
    await agents.end(agent)
    agents.broker.refuses = { status: 503 }
    expect(await ask(await agents.begin({}, overrides), sandbox)).toEqual([200, undefined])
  })
})

describe('[C-30] what the broker denied', () => {
  test('is denied by an agent that comes back while its broker is away', async () => {
    const { agent, ...first } = await agents.begin({ destroyOnExit: false })
    const sandbox = String((await agents.create(first, 's1')).body?.sandbox_id)
    const now = Math.floor(Date.now() / 1000)
    const until = now + 600
    const pushed = await agents.control(first, 'POST', '/control/v1/revocations', {
      sessions: [],
      tokens: [{ jti: 'denied', until }],
      grants: [{ session_id: 's1', sub: 'narrowed', caps: ['fs_read'], before: now, until }],
    })
    expect(pushed.status).toBe(204)
    await agents.end(agent)
    agents.broker.refuses = { status: 503 }
    const ready = await agents.begin()
    expect(await ask(ready, sandbox)).toEqual([200, undefined])
    expect(await ask(ready, sandbox, { jti: 'denied' })).toEqual([401, 'UNAUTHENTICATED'])
    expect(await ask(ready, sandbox, { sub: 'narrowed', iat: now })).toEqual([403, 'CAPABILITY_DENIED'])
    expect(await ask(ready, sandbox, { sub: 'narrowed', iat: now + 1 })).toEqual([200, undefined])
  })
})

describe('[2-30, 4-95] an agent that starts while its engine is away', () => {
  /** The local provider, whose engine answers or lists when the test says so; it lists no sandbox before `listing` is resolved. */
  const engine = () => {
    const state = { answers: true, lists: true, listing: Promise.resolve(), refused: 0 }
    const openLocal = () =>
      createLocalProvider({ dataDirectory: agents.dataDir, installId: 'feed000000000000', isolation: 'auto', log: silent })
    const open = async (): Promise<Provider> => {
      const provider = await openLocal()
      return {
        ...provider,
        name: 'engine',
        probe: async () => (state.answers ? provider.probe() : { available: false, reason: 'the engine is down' }),
        sandboxes: {
          ...provider.sandboxes,
          async *list() {
            await state.listing
            if (state.lists) return yield* provider.sandboxes.list()
            state.refused++
            throw new Error('the engine does not list')
          },
        },
      }
    }
    // The second one works always, and does not know the sandboxes of the first.
    return {
      state,
      candidates: [
        { name: 'engine', open },
        { name: 'local', open: openLocal },
      ],
    }
  }

  test.each([
    ['does not answer', { answers: false, lists: false, isSlow: false }],
    ['answers and cannot list', { answers: true, lists: false, isSlow: false }],
    ['takes longer to list than a start may wait', { answers: true, lists: true, isSlow: true }],
  ])('which %s: its sandboxes are neither missing nor gone, and are adopted when it is back', async (_, { isSlow, ...away }) => {
    const { state, candidates } = engine()
    const { agent, ...first } = await agents.begin({ destroyOnExit: false }, { candidates })
    const id = String((await agents.create(first, 's1')).body?.sandbox_id)
    await agents.end(agent)

    const listing = Promise.withResolvers<void>()
    Object.assign(state, away, isSlow ? { listing: listing.promise } : {})
    const ready = await agents.begin({}, { candidates })
    expect(agents.broker.registrations[1]).toMatchObject({ partial: true, sandboxes: [], provider: { available: false } })
    await agents.broker.heartbeat(({ instance_id: instance }) => instance === agents.broker.registrations[1]?.instance_id)
    const recovering = { status: 503, body: { error: { code: 'BACKEND_UNAVAILABLE', details: { reason: 'agent_recovering' } } } }
    expect(await ask(ready, id)).toEqual([503, 'BACKEND_UNAVAILABLE'])
    expect(await agents.control(ready, 'GET', `/control/v1/sandboxes/${id}`)).toMatchObject(recovering)
    expect(await agents.control(ready, 'GET', '/control/v1/sandboxes')).toMatchObject(recovering)
    expect(await agents.control(ready, 'DELETE', `/control/v1/sandboxes/${id}`)).toMatchObject(recovering)
    expect(await agents.create(ready, 's1')).toMatchObject(recovering)
    // One that no record names is as unknown as ever.
    expect(await ask(ready, 'sbx_00000000000000000000000000')).toEqual([503, 'SANDBOX_LOST'])

    // The engine answers first, and lists later.
    listing.resolve()
    state.answers = true
    if (!away.answers) await agents.broker.heartbeat(() => state.refused > 0)
    state.lists = true
    const { sandboxes } = await agents.broker.heartbeat(({ partial, instance_id: instance }) => {
      return !partial && instance === agents.broker.registrations[1]?.instance_id
    })
    expect(sandboxes).toMatchObject([{ sandbox_id: id, session_id: 's1', state: 'running' }])
    expect(await ask(ready, id)).toEqual([200, undefined])
    expect((await agents.create(ready, 's1')).body?.sandbox_id).toBe(id)
  })
})
