import { recoverySuite } from './suites/recovery.ts'

recoverySuite('docker')
