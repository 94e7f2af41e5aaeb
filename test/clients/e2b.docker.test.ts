import { e2bSuite } from './suites/e2b.ts'

e2bSuite('docker', { whole: false })
