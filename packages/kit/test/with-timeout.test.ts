import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { withTimeout } from '../src/waiting/with-timeout.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const never = new Promise<never>(() => {})

test('work that is done in time gives what it gives, and leaves no timer', async () => {
  expect(await withTimeout(Promise.resolve('done'), 1000, () => 'late')).toBe('done')
  expect(vi.getTimerCount()).toBe(0)
})

test('work that fails in time throws, and leaves no timer', async () => {
  await expect(withTimeout(Promise.reject(new Error('broken')), 1000, () => 'late')).rejects.toThrow('broken')
  expect(vi.getTimerCount()).toBe(0)
})

test('after the time it gives what the caller wants, or throws it', async () => {
  const gives = withTimeout(never, 1000, () => 'late')
  const throws = expect(
    withTimeout(never, 1000, () => {
      throw new Error('too late')
    }),
  ).rejects.toThrow('too late')
  await vi.advanceTimersByTimeAsync(1000)
  expect(await gives).toBe('late')
  await throws
})

test('a time that is over gives work that is done its due', async () => {
  const result = withTimeout(Promise.resolve('done'), -1, () => 'late')
  await vi.advanceTimersByTimeAsync(1)
  expect(await result).toBe('done')
})

test('work that fails after the time is no unhandled rejection', async () => {
  const { promise, reject } = Promise.withResolvers<string>()
  const result = withTimeout(promise, 10, () => undefined)
  await vi.advanceTimersByTimeAsync(10)
  expect(await result).toBeUndefined()
  reject(new Error('nobody hears this'))
  await expect(promise).rejects.toThrow('nobody hears this')
})
