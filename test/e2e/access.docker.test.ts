import { accessSuite } from './suites/access.ts'

accessSuite('docker')
