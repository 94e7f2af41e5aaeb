import { cleanupSuite } from './suites/cleanup.ts'

cleanupSuite('local')
