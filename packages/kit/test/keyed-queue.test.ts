import { expect, test } from 'vitest'
import { KeyedQueue } from '../src/waiting/keyed-queue.ts'

test('[3-26] what has one key runs one after the other, in order, also after a failure; another key does not wait', async () => {
  const queue = new KeyedQueue()
  const told: string[] = []
  const first = Promise.withResolvers<void>()
  const work = [
    queue.run('a', async () => {
      told.push('a1 begins')
      await first.promise
      told.push('a1 fails')
      throw new Error('a1')
    }),
    queue.run('a', async () => told.push('a2')),
    queue.run('b', async () => told.push('b')),
  ]
  await work[2]
  expect(told).toEqual(['a1 begins', 'b'])
  first.resolve()
  await expect(work[0]).rejects.toThrow('a1')
  await work[1]
  expect(told).toEqual(['a1 begins', 'b', 'a1 fails', 'a2'])
})

test('a key is forgotten with the end of its last work, not before', async () => {
  const queue = new KeyedQueue<number>()
  const second = Promise.withResolvers<void>()
  const works = [queue.run(1, () => 'first'), queue.run(1, () => second.promise), queue.run(2, () => 'other')]
  expect(queue.size).toBe(2)
  expect([1, 2, 3].map((key) => queue.unfinished(key))).toEqual([2, 1, 0])
  expect(await works[0]).toBe('first')
  await works[2]
  expect(queue.size).toBe(1)
  second.resolve()
  await works[1]
  expect(queue.size).toBe(0)
})
