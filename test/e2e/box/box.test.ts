import { boxSuite } from './box.ts'

boxSuite('local')
