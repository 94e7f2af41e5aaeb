import { concurrencySuite } from './concurrency.ts'

concurrencySuite('local')
