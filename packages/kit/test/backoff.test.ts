import { expect, test } from 'vitest'
import { backoffMs } from '../src/waiting/backoff.ts'

test('waits double up to the longest, less a random part of up to a half', () => {
  const backoff = { firstMs: 100, mostMs: 1000 }
  const waits = (random: number) => [1, 2, 3, 4, 5, 2000].map((failures) => backoffMs(failures, backoff, () => random))
  expect(waits(0)).toEqual([100, 200, 400, 800, 1000, 1000])
  expect(waits(1)).toEqual([50, 100, 200, 400, 500, 500])
})
