import { recoverySuite } from './recovery.ts'

recoverySuite('local')
