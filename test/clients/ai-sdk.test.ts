import { describe } from 'vitest'
import { MODES } from '../e2e/support/stack.ts'
import { aiSdkSuite } from './suites/ai-sdk.ts'
import { stackOf } from './support/stack-of.ts'

describe.each(MODES)('local, %s', (mode) => aiSdkSuite(stackOf({ provider: 'local', mode }), { page: mode === 'direct' }))
