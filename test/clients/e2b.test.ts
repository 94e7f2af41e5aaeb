import { e2bSuite } from './suites/e2b/suite.ts'

e2bSuite('local', { whole: true })
