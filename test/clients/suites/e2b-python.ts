import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../e2e/support/program.ts'
import { API_KEY, type Stack } from '../../e2e/support/stack.ts'
import { runToEnd } from '../support/pytest.ts'

const PYTHON = join(ROOT, '.tools/python-e2b/bin/python')
const PROGRAM = join(import.meta.dirname, 'e2b_sdk.py')

/** E2B's Python SDK, in a program of its own. */
export const e2bPythonSuite = (stack: () => Stack): void => {
  test("E2B's Python SDK runs commands, terminals, files and the life of a sandbox", async () => {
    const env = { BOXOFFICE_URL: stack().brokerUrl, BOXOFFICE_API_KEY: API_KEY }
    const { code, output } = await runToEnd(PYTHON, [PROGRAM], { env })
    expect(code, output).toBe(0)
    expect(output.trim().split('\n')).toEqual(
      ['commands', 'background', 'terminal', 'files', 'watch', 'life', 'async'].map((name) => `passed test_${name}`),
    )
  }, 400_000)
}
