import { cleanupSuite } from './cleanup.ts'

cleanupSuite('docker')
