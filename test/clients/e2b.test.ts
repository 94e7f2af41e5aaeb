import { e2bSuite } from './suites/e2b.ts'

e2bSuite('local', { whole: true })
