import { test } from 'vitest'
import type { Stack } from '../../e2e/support/stack.ts'
import { pytest } from '../support/pytest.ts'

const TESTS = 'packages/langchain-boxoffice/tests'

/** The same where the sandbox has no file system of its own. */
export const unisolatedLangchainPythonSuite = (stack: () => Stack): void => {
  test('file methods work below the workspace without isolation', async () => {
    await pytest(stack(), `${TESTS}/test_isolation_none.py`, { least: 1 })
  })
}

/** `BoxofficeSandbox` of Python against a stack. */
export const langchainPythonSuite = (stack: () => Stack, { whole }: { whole: boolean }): void => {
  test('the standard tests of langchain-tests pass', async () => {
    await pytest(stack(), `${TESTS}/test_standard.py`, { least: 80 })
  })
  if (!whole) return

  test('file methods, paths, parallel calls and ends are as deepagents wants them', async () => {
    await pytest(stack(), `${TESTS}/test_sandbox.py`, { least: 15 })
  })
}
