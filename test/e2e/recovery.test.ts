import { recoverySuite } from './suites/recovery.ts'

recoverySuite('local')
