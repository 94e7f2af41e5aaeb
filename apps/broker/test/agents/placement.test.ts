import type { AgentCapacity } from '@boxoffice/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AgentDirectory } from '../../src/agents/agent-directory.ts'
import { Placement } from '../../src/agents/placement.ts'
import type { AgentRecord } from '../../src/store/store.ts'
import { gate } from '../support/test-broker.ts'

const provider = { name: 'fake', available: true, reason: null }
const agentOf = (id: string, fields: object = {}) =>
  ({ id, relay: 'auto', lastSeenAt: 1, tokenHash: 'h', capacity: null, provider, ...fields }) as unknown as AgentRecord
const AGENTS = ['a', 'b', 'c'].map((id) => agentOf(id))

const placementOf = (agents: readonly AgentRecord[], live: Record<string, number> = {}) =>
  new Placement({
    directory: new AgentDirectory({ list: async () => [...agents] }),
    counts: { liveByAgent: async (ids) => Object.fromEntries(ids.map((id) => [id, live[id] ?? 0])) },
    timeoutMs: 1000,
    silence: { ms: () => 0 },
  })

const MiB = 1024 ** 2
const capacityOf = (sessions: number, room: number, fields: Partial<AgentCapacity> = {}): AgentCapacity => ({
  ...{ sessions, room, limit: 'memory' },
  ...{ memory: { have: 8192 * MiB, asked: sessions * 512 * MiB }, processors: { have: 8, asked: sessions } },
  ...fields,
})
const demand = { memoryBytes: 512 * MiB, processors: 1 }

test('choices whose rows are not written yet count: sessions that come at once are spread over the agents', async () => {
  const live: Record<string, number> = {}
  const placement = placementOf(AGENTS, live)
  const written = gate()
  const chosen: string[] = []
  const all = Array.from({ length: 12 }, () =>
    placement.place({}, async ({ id }) => {
      chosen.push(id)
      await written.promise
      live[id] = (live[id] ?? 0) + 1
    }),
  )
  await expect.poll(() => chosen.length).toBe(12)
  expect(chosen.toSorted()).toEqual([...'aaaabbbbcccc'])
  written.open()
  await Promise.all(all)
  // A write that has failed counts for nobody, and what has been written counts once.
  for (let i = 0; i < 5; i++) await expect(placement.place({}, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  live.a = 6
  live.b = 5
  expect((await placement.choose()).id).toBe('c')
})

test('a sandbox with the proxy goes to an agent that has it; where none has, it is refused', async () => {
  const choose = (...proxies: (boolean | undefined)[]) => {
    const agents = proxies.map((has, at) => agentOf(AGENTS[at]?.id ?? '', { provider: { ...provider, capabilities: { egress: has } } }))
    return placementOf(agents).choose({ needsEgress: true })
  }
  expect([(await choose(undefined, true)).id, (await choose(false, true)).id]).toEqual(['b', 'b'])
  await expect(choose(undefined, false)).rejects.toMatchObject({ code: 'UNSUPPORTED', message: expect.stringMatching(/has no proxy here/) })
})

test('[2-03] an image of a client’s goes to an agent that has images; where none has, it is refused', async () => {
  const choose = (...images: (boolean | undefined)[]) => {
    const agents = images.map((has, at) => agentOf(AGENTS[at]?.id ?? '', { provider: { ...provider, capabilities: { images: has } } }))
    return placementOf(agents).choose({ needsImage: true })
  }
  expect([(await choose(false, true)).id, (await choose(false, undefined)).id]).toEqual(['b', 'b'])
  await expect(choose(false, false)).rejects.toMatchObject({
    status: 400,
    code: 'INVALID_REQUEST',
    details: { field: 'image' },
    message: expect.stringMatching(/^image: the provider "fake" has no images; leave image out/),
  })
})

test('an agent that is full is passed over, also one that others have filled since its report', async () => {
  const agents = [agentOf('a', { capacity: capacityOf(0, 0) }), agentOf('b', { capacity: capacityOf(7, 9) })]
  expect((await placementOf(agents, { b: 7 }).choose({ demand })).id).toBe('b')
  const filled = [agentOf('a', { capacity: capacityOf(2, 3) }), agentOf('b', { capacity: capacityOf(7, 9) })]
  expect((await placementOf(filled, { a: 4, b: 7 }).choose({ demand })).id).toBe('a')
  expect((await placementOf(filled, { a: 5, b: 7 }).choose({ demand })).id).toBe('b')
})

test('where every agent is full, one of them is asked all the same: it may have room again, and says why it has none', async () => {
  const agents = [agentOf('a', { capacity: capacityOf(9, 0) }), agentOf('b', { capacity: capacityOf(4, 0) })]
  expect((await placementOf(agents, { a: 9, b: 4 }).choose({ demand })).id).toBe('b')
})

test('what an agent is shortest of decides: sessions, memory or processors that they ask for', async () => {
  const of = (id: string, fields: Partial<AgentCapacity>) => agentOf(id, { capacity: capacityOf(4, 96, fields) })
  const processors = { have: 8, asked: 4 }
  const agents = [
    of('memory', { memory: { have: 100, asked: 70 }, processors }),
    of('processors', { memory: { have: 100, asked: 10 }, processors: { have: 8, asked: 7 } }),
    of('free', { memory: { have: 100, asked: 60 }, processors }),
  ]
  expect((await placementOf(agents, { memory: 4, processors: 4, free: 4 }).choose()).id).toBe('free')
})

test('a large agent gets more than a small one, and who does not say what it has is compared by its sessions', async () => {
  const large = capacityOf(4, 60, { memory: { have: 65_536 * MiB, asked: 2048 * MiB }, processors: { have: 64, asked: 4 } })
  const agents = [agentOf('small', { capacity: capacityOf(2, 14) }), agentOf('large', { capacity: large })]
  expect((await placementOf(agents, { small: 2, large: 4 }).choose({ demand })).id).toBe('large')
  const older = [...agents, agentOf('older')]
  expect((await placementOf(older, { small: 2, large: 4, older: 0 }).choose({ demand })).id).toBe('older')
  expect((await placementOf(older, { small: 2, large: 4, older: 9 }).choose({ demand })).id).toBe('large')
})

test('an agent that registers after the list was read is found when no other one will do', async () => {
  const agents: AgentRecord[] = []
  const placement = placementOf(agents)
  await expect(placement.choose()).rejects.toThrow('no agent is connected')
  agents.push(agentOf('a'))
  expect((await placement.choose()).id).toBe('a')
})

test('over equal agents sessions are spread within one, and no full agent is chosen while another has room', async () => {
  const fleet = fc.record({
    agents: fc.integer({ min: 1, max: 40 }),
    total: fc.integer({ min: 1, max: 6 }),
    sessions: fc.integer({ min: 1, max: 120 }),
    /** Each so many, agents report what they have. */
    reportsEach: fc.integer({ min: 1, max: 50 }),
    brokers: fc.integer({ min: 1, max: 3 }),
    atOnce: fc.integer({ min: 1, max: 8 }),
  })
  await fc.assert(
    fc.asyncProperty(fleet, async ({ agents: count, total, sessions, reportsEach, brokers, atOnce }) => {
      const live: Record<string, number> = {}
      const ids = Array.from({ length: count }, (_, at) => `agent-${at}`)
      let seenAt = 1
      const report = (id: string) => agentOf(id, { lastSeenAt: seenAt, capacity: capacityOf(live[id] ?? 0, total - (live[id] ?? 0)) })
      let agents = ids.map(report)
      const all = Array.from({ length: brokers }, () => {
        const directory = new AgentDirectory({ list: async () => [...agents] }, () => seenAt * 10_000)
        const counts = { liveByAgent: async (of: readonly string[]) => Object.fromEntries(of.map((id) => [id, live[id] ?? 0])) }
        return new Placement({ directory, counts, timeoutMs: 1000, silence: { ms: () => 0 } })
      })
      const place = (n: number) =>
        all[Math.floor(n / atOnce) % brokers]?.place({ demand }, async ({ id }) => {
          const isFull = (live[id] ?? 0) >= total
          if (isFull) expect(Object.values(live).filter((one) => one >= total)).toHaveLength(count)
          live[id] = (live[id] ?? 0) + 1
        })
      for (let n = 0; n < Math.min(sessions, count * total); n += atOnce) {
        await Promise.all(Array.from({ length: Math.min(atOnce, count * total - n) }, (_, at) => place(n + at)))
        if (n % reportsEach < atOnce) {
          seenAt++
          agents = ids.map(report)
        }
      }
      const numbers = ids.map((id) => live[id] ?? 0)
      expect(Math.max(...numbers) - Math.min(...numbers)).toBeLessThanOrEqual(1)
    }),
    { numRuns: 60 },
  )
})
