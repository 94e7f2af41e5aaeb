import { scopesSuite } from './scopes.ts'

scopesSuite('docker')
