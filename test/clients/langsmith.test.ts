import { langsmithSuite } from './suites/langsmith.ts'

langsmithSuite('local', { whole: true })
