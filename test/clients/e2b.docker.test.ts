import { e2bSuite } from './suites/e2b/suite.ts'

e2bSuite('docker', { whole: false })
