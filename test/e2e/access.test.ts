import { accessSuite } from './suites/access.ts'

accessSuite('local')
