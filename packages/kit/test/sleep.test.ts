import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { sleep } from '../src/waiting/sleep.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('it waits, and then listens to its signal no longer', async () => {
  const { signal } = new AbortController()
  const off = vi.spyOn(signal, 'removeEventListener')
  let over = false
  const waiting = sleep(1000, signal).then(() => {
    over = true
  })
  await vi.advanceTimersByTimeAsync(999)
  expect(over).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  await waiting
  expect(off).toHaveBeenCalledOnce()
})

test.each([false, true])('it rejects with the reason of its signal and leaves no timer (aborted before: %s)', async (before) => {
  const aborting = new AbortController()
  const reason = new Error('stop')
  if (before) aborting.abort(reason)
  const waiting = sleep(1000, aborting.signal)
  aborting.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  expect(vi.getTimerCount()).toBe(0)
})
