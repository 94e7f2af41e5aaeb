import { describe } from 'vitest'
import { MODES } from '../e2e/support/stack.ts'
import { langgraphSuite } from './suites/langgraph.ts'
import { stackOf } from './support/stack-of.ts'

describe.each(MODES)('local, %s', (mode) => langgraphSuite(stackOf({ provider: 'local', mode }), { whole: true }))
