import { suspendSuite } from './suspend.ts'

suspendSuite('local')
