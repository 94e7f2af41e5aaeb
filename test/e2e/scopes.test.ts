import { scopesSuite } from './suites/scopes.ts'

scopesSuite('local')
