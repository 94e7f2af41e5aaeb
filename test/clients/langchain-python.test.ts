import { describe } from 'vitest'
import { MODES } from '../e2e/support/stack.ts'
import { langchainPythonSuite, unisolatedLangchainPythonSuite } from './suites/langchain-python.ts'
import { stackOf } from './support/stack-of.ts'

describe.each(MODES)('langchain-boxoffice, local, %s', (mode) =>
  langchainPythonSuite(stackOf({ provider: 'local', mode }), { whole: mode === 'direct' }),
)

describe('langchain-boxoffice, without isolation', () =>
  unisolatedLangchainPythonSuite(stackOf({ provider: 'local', agentArgs: ['--isolation', 'none'] })))
