import { processesSuite } from './suites/processes.ts'

processesSuite('local')
