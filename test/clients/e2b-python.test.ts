import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../e2e/support/program.ts'
import { API_KEY, startStack } from '../e2e/support/stack.ts'
import { runToEnd } from './support/pytest.ts'

const PYTHON = join(ROOT, '.tools/python-e2b/bin/python')
const SUITE = join(ROOT, 'test/clients/suites/e2b_sdk.py')

test("E2B's Python SDK runs commands, terminals, files and the life of a sandbox", async () => {
  await using stack = await startStack({ provider: 'local' })
  const env = { BOXOFFICE_URL: stack.brokerUrl, BOXOFFICE_API_KEY: API_KEY }
  const { code, output } = await runToEnd(PYTHON, [SUITE], { env })
  expect(code, output).toBe(0)
  expect(output.trim().split('\n')).toEqual(
    ['commands', 'background', 'terminal', 'files', 'life', 'async'].map((name) => `passed test_${name}`),
  )
})
