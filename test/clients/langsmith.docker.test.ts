import { langsmithSuite } from './suites/langsmith.ts'

langsmithSuite('docker', { whole: false })
