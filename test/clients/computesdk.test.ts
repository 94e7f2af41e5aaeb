import { describe } from 'vitest'
import { MODES } from '../e2e/support/stack.ts'
import { computesdkSuite } from './suites/computesdk.ts'
import { stackOf } from './support/stack-of.ts'

describe.each(MODES)('local, %s', (mode) => computesdkSuite(stackOf({ provider: 'local', mode }), { page: mode === 'direct' }))
