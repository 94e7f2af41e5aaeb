import { suspendSuite } from './suites/suspend.ts'

suspendSuite('docker')
