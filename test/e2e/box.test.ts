import { boxSuite } from './suites/box.ts'

boxSuite('local')
