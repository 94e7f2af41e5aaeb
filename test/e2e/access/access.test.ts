import { accessSuite } from './access.ts'

accessSuite('local')
