import { MODES } from '../e2e/support/stack.ts'
import { computesdkSuite } from './suites/computesdk.ts'

for (const mode of MODES) computesdkSuite('local', mode, { whole: mode === 'direct' })
