import { MODES } from '../e2e/support/stack.ts'
import { aiSdkSuite } from './suites/ai-sdk.ts'

for (const mode of MODES) aiSdkSuite('local', mode, { whole: mode === 'direct' })
