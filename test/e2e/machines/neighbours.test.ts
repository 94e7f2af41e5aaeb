import { neighboursSuite } from './neighbours.ts'

neighboursSuite('local')
