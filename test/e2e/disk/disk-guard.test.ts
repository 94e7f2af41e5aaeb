import { diskGuardSuite } from './disk-guard.ts'

diskGuardSuite('local')
