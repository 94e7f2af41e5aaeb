import { expect, test } from 'vitest'
import { Turns } from '../../../apps/broker/src/surfaces/sbs/turns.ts'

test('[3-26] what has one key runs one after the other, in order, also after a failure; another key does not wait', async () => {
  const turns = new Turns()
  const told: string[] = []
  const first = Promise.withResolvers<void>()
  const work = [
    turns.take('a', async () => {
      told.push('a1 begins')
      await first.promise
      told.push('a1 fails')
      throw new Error('a1')
    }),
    turns.take('a', async () => told.push('a2')),
    turns.take('b', async () => told.push('b')),
  ]
  await work[2]
  expect(told).toEqual(['a1 begins', 'b'])
  first.resolve()
  await expect(work[0]).rejects.toThrow('a1')
  await work[1]
  expect(told).toEqual(['a1 begins', 'b', 'a1 fails', 'a2'])
})
