import { accessSuite } from './access.ts'

accessSuite('docker')
