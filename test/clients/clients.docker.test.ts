import { aiSdkSuite } from './suites/ai-sdk.ts'
import { computesdkSuite } from './suites/computesdk.ts'
import { runsSuite } from './suites/deepagents-runs.ts'
import { e2bPythonSuite } from './suites/e2b-python.ts'
import { langgraphSuite } from './suites/langgraph.ts'
import { togetherSuite } from './suites/together.ts'
import { stackOf } from './support/stack-of.ts'

/** Clients whose tests need no stack of their own. */
const stack = stackOf({ provider: 'docker' })
// First, because it kills the agent, which then has few containers to find again.
runsSuite(stack, 'direct', { whole: false })
aiSdkSuite(stack)
computesdkSuite(stack)
e2bPythonSuite(stack)
togetherSuite(stack)
langgraphSuite(stack, { whole: false })
