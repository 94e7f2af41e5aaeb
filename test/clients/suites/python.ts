import { test } from 'vitest'
import type { Stack } from '../../e2e/support/stack.ts'
import { pytest } from '../support/pytest.ts'

const TESTS = 'packages/client-python/tests'

/** The Python client against a stack; `whole` is false for the short list of another engine. */
export const pythonSuite = (stack: () => Stack, { whole }: { whole: boolean }): void => {
  test('[4-09, 4-150] the blocking client negotiates, runs commands and works on files', async () => {
    await pytest(stack(), `${TESTS}/test_sync.py`, { least: 18 })
  }, 400_000)
  if (!whole) return

  test('[4-09, 4-150] streams go on after dropped connections, without loss and without running twice', async () => {
    await pytest(stack(), `${TESTS}/test_stream.py`, { least: 14 })
  })
}

/** What differs from the blocking client in words alone needs one mode. */
export const asyncPythonSuite = (stack: () => Stack): void => {
  test('the asynchronous client does the same', async () => {
    await pytest(stack(), `${TESTS}/test_async.py`, { least: 7 })
  })
  test('a silent network is a typed error in bounded time', async () => {
    await pytest(stack(), `${TESTS}/test_silence.py`, { least: 5 })
  })
  test('a session goes through the relay where its agent cannot be reached', async () => {
    await pytest(stack(), `${TESTS}/test_relay.py`, { least: 1 })
  })
}
