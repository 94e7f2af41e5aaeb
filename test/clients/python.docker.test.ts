import { describe } from 'vitest'
import { MODES } from '../e2e/support/stack.ts'
import { langchainPythonSuite } from './suites/langchain-python.ts'
import { pythonSuite } from './suites/python.ts'
import { stackOf } from './support/stack-of.ts'

describe.each(MODES)('the Python packages, docker, %s', (mode) => {
  const stack = stackOf({ provider: 'docker', mode })
  pythonSuite(stack, { whole: false })
  langchainPythonSuite(stack, { whole: false })
})
