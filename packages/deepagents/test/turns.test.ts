import { expect, test } from 'vitest'
import { Turns } from '../src/turns.ts'

test('work above the limit waits for its turn, also after work that failed', async () => {
  const turns = new Turns(2)
  const begun: number[] = []
  const gates = Array.from({ length: 4 }, () => Promise.withResolvers<number>())
  const results = gates.map((gate, i) =>
    turns.run(() => {
      begun.push(i)
      return gate.promise
    }),
  )
  expect(begun).toEqual([0, 1])
  gates[0]?.reject(new Error('failed'))
  await expect(results[0]).rejects.toThrow('failed')
  await expect.poll(() => begun).toEqual([0, 1, 2])
  for (const [i, gate] of gates.entries()) gate.resolve(i)
  expect(await Promise.all(results.slice(1))).toEqual([1, 2, 3])
  expect(await turns.run(async () => 'free')).toBe('free')
})

test('work that is aborted while it waits is refused at once, and not done', async () => {
  const turns = new Turns(1)
  const gate = Promise.withResolvers<void>()
  const first = turns.run(() => gate.promise)
  const controller = new AbortController()
  const second = turns.run(() => Promise.reject(new Error('done all the same')), controller.signal)
  const third = turns.run(async () => 'third')
  controller.abort(new Error('aborted'))
  await expect(second).rejects.toThrow('aborted')
  await expect(turns.run(() => Promise.reject(new Error('done all the same')), controller.signal)).rejects.toThrow('aborted')
  gate.resolve()
  await first
  expect(await third).toBe('third')
  expect(await turns.run(async () => 'free')).toBe('free')
})
