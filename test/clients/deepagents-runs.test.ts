import { describe } from 'vitest'
import { MODES } from '../e2e/support/stack.ts'
import { runsSuite } from './suites/deepagents-runs.ts'
import { stackOf } from './support/stack-of.ts'

describe.each(MODES)('local, %s', (mode) => runsSuite(stackOf({ provider: 'local', mode }), mode, { whole: true }))
