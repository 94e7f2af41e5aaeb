import { expect, test } from 'vitest'
import { SerialQueue } from '../src/waiting/serial-queue.ts'

test('work runs one at a time, and a failure holds up nothing', async () => {
  const queue = new SerialQueue()
  const told: string[] = []
  const first = Promise.withResolvers<void>()
  const failing = queue.run(async () => {
    await first.promise
    told.push('first')
    throw new Error('first')
  })
  const second = queue.run(() => told.push('second'))
  const idle = queue.idle().then(() => told.push('idle'))
  first.resolve()
  await expect(failing).rejects.toThrow('first')
  expect(await second).toBe(2)
  await idle
  expect(told).toEqual(['first', 'second', 'idle'])
})

test('work that throws at once rejects, and an empty queue is idle', async () => {
  const queue = new SerialQueue()
  await queue.idle()
  await expect(
    queue.run(() => {
      throw new Error('at once')
    }),
  ).rejects.toThrow('at once')
  await queue.idle()
})
