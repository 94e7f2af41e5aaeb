import { neighboursSuite } from './suites/neighbours.ts'

neighboursSuite('local')
