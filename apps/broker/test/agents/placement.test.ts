import { expect, test } from 'vitest'
import { Placement } from '../../src/agents/placement.ts'
import type { Store } from '../../src/store/store.ts'
import { gate } from '../support/test-broker.ts'

const IDS = ['a', 'b', 'c']
const agents = IDS.map((id) => ({ id, relay: 'auto', provider: { name: 'fake', available: true, reason: null } }))
/** What a placement asks; the rows of `live` are those that are written. */
const storeOf = (live: Record<string, number>) =>
  ({ agents: { list: async () => agents }, counts: { liveByAgent: async () => ({ ...live }) } }) as unknown as Store

test('choices whose rows are not written yet count: sessions that come at once are spread over the agents', async () => {
  const live: Record<string, number> = {}
  const placement = new Placement(storeOf(live), 1000, { ms: () => 0 })
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

test('[2-03] an image of a client’s goes to an agent that has images; where none has, it is refused', async () => {
  const list = (...images: (boolean | undefined)[]) =>
    images.map((has, at) => ({ ...agents[at], provider: { ...agents[at]?.provider, capabilities: { images: has } } }))
  const choose = (...images: (boolean | undefined)[]) => {
    const store = { ...storeOf({}), agents: { list: async () => list(...images) } } as unknown as Store
    return new Placement(store, 1000, { ms: () => 0 }).choose({ needsImage: true })
  }
  expect([(await choose(false, true)).id, (await choose(false, undefined)).id]).toEqual(['b', 'b'])
  await expect(choose(false, false)).rejects.toMatchObject({
    status: 400,
    code: 'INVALID_REQUEST',
    details: { field: 'image' },
    message: expect.stringMatching(/^image: the provider "fake" has no images; leave image out/),
  })
})
