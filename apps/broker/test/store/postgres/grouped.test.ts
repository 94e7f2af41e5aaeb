import { expect, test } from 'vitest'
import { DatabaseAway } from '../../../src/store/database-away.ts'
import { grouped } from '../../../src/store/postgres/engine/grouped.ts'

/** Doubles numbers, and notes which were asked for together. */
const doubling = (fails: (items: readonly number[]) => Error | undefined = () => undefined, everyMs?: number) => {
  const groups: number[][] = []
  const double = grouped(
    async (items: readonly number[]) => {
      groups.push([...items])
      const error = fails(items)
      if (error !== undefined) throw error
      return items.map((item) => item * 2)
    },
    { keyOf: (item) => String(item % 10), ...(everyMs === undefined ? {} : { everyMs }) },
  )
  return { groups, double }
}

test('what comes in one turn is asked for at once, and each gets its own answer', async () => {
  const { groups, double } = doubling()
  expect(await Promise.all([1, 2, 3].map(double))).toEqual([2, 4, 6])
  expect(await double(4)).toBe(8)
  expect(groups).toEqual([[1, 2, 3], [4]])
})

test('items with the same key are asked for one after the other, and nobody else waits for them', async () => {
  const { groups, double } = doubling()
  const many = [1, 11, 21].map(double)
  expect(await double(2)).toBe(4)
  expect(groups).toEqual([[1, 2]])
  expect(await Promise.all(many)).toEqual([2, 22, 42])
  expect(groups).toEqual([[1, 2], [11], [21]])
})

test('an item that fails fails alone', async () => {
  const { groups, double } = doubling((items) => (items.includes(2) ? new Error('two') : undefined))
  const [one, two, three] = await Promise.allSettled([1, 2, 3].map(double))
  expect([one, three]).toMatchObject([{ value: 2 }, { value: 6 }])
  expect(two).toMatchObject({ status: 'rejected', reason: { message: 'two' } })
  expect(groups).toEqual([[1, 2, 3], [1], [2], [3]])
})

test('while the database is away all fail at once', async () => {
  const { groups, double } = doubling(() => new DatabaseAway('away', new Error('cut')))
  for (const result of await Promise.allSettled([1, 2, 3].map(double)))
    expect(result).toMatchObject({ status: 'rejected', reason: { code: 'BACKEND_UNAVAILABLE' } })
  expect(groups).toEqual([[1, 2, 3]])
})

test('with a pace, the first item waits for nothing, and what comes soon after it for the next group', async () => {
  const { groups, double } = doubling(undefined, 1000)
  const begun = performance.now()
  expect(await double(1)).toBe(2)
  const soon = double(2)
  await new Promise((resolve) => setImmediate(resolve))
  expect(await Promise.all([soon, double(3)])).toEqual([4, 6])
  // A timer and the clock differ by up to a millisecond.
  expect(performance.now() - begun).toBeGreaterThan(998)
  expect(groups).toEqual([[1], [2, 3]])
})
