import { scopesSuite } from './scopes.ts'

scopesSuite('local')
