import { cleanupSuite } from './suites/cleanup.ts'

cleanupSuite('docker')
