import { processesSuite } from './processes.ts'

processesSuite('docker')
