import { describe } from 'vitest'
import { MODES } from '../e2e/support/stack.ts'
import { aiSdkSuite } from './suites/ai-sdk.ts'
import { computesdkSuite } from './suites/computesdk.ts'
import { runsSuite } from './suites/deepagents-runs.ts'
import { e2bPythonSuite } from './suites/e2b-python.ts'
import { langgraphSuite } from './suites/langgraph.ts'
import { togetherSuite } from './suites/together.ts'
import { stackOf } from './support/stack-of.ts'

/** Clients whose tests need no stack of their own. */
describe.each(MODES)('docker, %s', (mode) => {
  const stack = stackOf({ provider: 'docker', mode })
  // First, because it kills the agent, which then has few containers to find again.
  runsSuite(stack, mode, { whole: false })
  aiSdkSuite(stack, { page: mode === 'direct' })
  computesdkSuite(stack, { page: mode === 'direct' })
  togetherSuite(stack)
  langgraphSuite(stack, { whole: false })
  // The facade is the broker's own; its client knows no relay.
  if (mode === 'direct') e2bPythonSuite(stack)
})
