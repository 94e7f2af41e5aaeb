import { recoverySuite } from './recovery.ts'

recoverySuite('docker')
