import { processesSuite } from './processes.ts'

processesSuite('local')
