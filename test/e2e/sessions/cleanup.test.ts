import { cleanupSuite } from './cleanup.ts'

cleanupSuite('local')
