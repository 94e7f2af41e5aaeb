import { computesdkSuite } from './suites/computesdk.ts'

computesdkSuite('docker', 'direct', { whole: false })
