import { diskGuardSuite } from './suites/disk-guard.ts'

diskGuardSuite('docker')
