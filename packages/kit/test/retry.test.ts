import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { retry } from '../src/waiting/retry.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Fails so often, then gives the number of attempts. */
const failing = (times: number) => {
  let attempts = 0
  return async () => {
    if (++attempts <= times) throw new Error(`failure ${attempts}`)
    return attempts
  }
}

test('work is repeated after each wait until it succeeds', async () => {
  const asked: [string, number][] = []
  const result = retry(failing(3), {
    waitMs: (error, failures) => {
      asked.push([(error as Error).message, failures])
      return failures * 10
    },
  })
  await vi.advanceTimersByTimeAsync(59)
  expect(asked).toEqual([
    ['failure 1', 1],
    ['failure 2', 2],
    ['failure 3', 3],
  ])
  await vi.advanceTimersByTimeAsync(1)
  expect(await result).toBe(4)
})

test('the failure is thrown when there is nothing to wait for, or what the caller throws in its place', async () => {
  await expect(retry(failing(9), { waitMs: () => undefined })).rejects.toThrow('failure 1')
  const refused = retry(failing(9), {
    waitMs: () => {
      throw new Error('refused')
    },
  })
  await expect(refused).rejects.toThrow('refused')
})

test('work that throws at once is a failure as well', async () => {
  const work = (): string => {
    throw new Error('at once')
  }
  await expect(retry(work, { waitMs: () => undefined })).rejects.toThrow('at once')
})

test('an abort ends the wait with its reason', async () => {
  const aborting = new AbortController()
  const result = retry(failing(9), { waitMs: () => 1000, signal: aborting.signal })
  const rejected = expect(result).rejects.toThrow('stop')
  await vi.advanceTimersByTimeAsync(10)
  aborting.abort(new Error('stop'))
  await rejected
  expect(vi.getTimerCount()).toBe(0)
})
