import { expect, test } from 'vitest'
import { BoundedCache } from '../src/bounds/bounded-cache.ts'

test('one entry too many takes the place of the one that was used the longest ago, and no other', () => {
  const gone: [string, number][] = []
  const cache = new BoundedCache<string, number>(3, (value, key) => gone.push([key, value]))
  for (const [at, key] of ['a', 'b', 'c'].entries()) cache.set(key, at)
  expect(cache.get('a')).toBe(0)
  cache.set('d', 3)
  expect([...cache.keys()].sort()).toEqual(['a', 'c', 'd'])
  expect(gone).toEqual([['b', 1]])
})

test('many entries never exceed the bound, and the newest stay', () => {
  const cache = new BoundedCache<number, number>(100)
  for (let i = 0; i < 10_000; i++) cache.set(i, i)
  expect(cache.size).toBe(100)
  expect([...cache.keys()].toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => 9900 + i))
})

test('what is not there is made once', () => {
  const cache = new BoundedCache<string, object>(2)
  let made = 0
  const make = (): object => ({ made: ++made })
  const first = cache.getOrMake('a', make)
  expect(cache.getOrMake('a', make)).toBe(first)
  expect(made).toBe(1)
})

test('a failure to make is not kept', () => {
  const cache = new BoundedCache<string, object>(2)
  const fail = (): object => {
    throw new Error('not now')
  }
  expect(() => cache.getOrMake('a', fail)).toThrow('not now')
  expect(cache.size).toBe(0)
})
