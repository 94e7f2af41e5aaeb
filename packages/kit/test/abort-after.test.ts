import { once } from 'node:events'
import { expect, test } from 'vitest'
import { abortAfter } from '../src/waiting/abort-after.ts'

test('is aborted when its time has come, as `AbortSignal.timeout` is', async () => {
  using limit = abortAfter(5)
  const { signal } = limit
  await once(signal, 'abort')
  const timeout = AbortSignal.timeout(1)
  await once(timeout, 'abort')
  expect(signal.reason).toEqual(timeout.reason)
  expect(signal.reason.name).toBe('TimeoutError')
})

test('is not aborted any more once it is disposed of, nor at once when its time is longer than a timer takes', async () => {
  const limit = abortAfter(20)
  limit[Symbol.dispose]()
  using long = abortAfter(Number.MAX_SAFE_INTEGER)
  using later = abortAfter(40)
  await once(later.signal, 'abort')
  expect([limit.signal.aborted, long.signal.aborted]).toEqual([false, false])
})
