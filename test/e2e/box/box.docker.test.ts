import { boxSuite } from './box.ts'

boxSuite('docker')
