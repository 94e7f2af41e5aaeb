import { suspendSuite } from './suspend.ts'

suspendSuite('docker')
