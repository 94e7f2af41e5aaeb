import { aiSdkSuite } from './suites/ai-sdk.ts'

aiSdkSuite('docker', 'direct', { whole: false })
