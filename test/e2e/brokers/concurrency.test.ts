import { concurrencySuite } from './concurrency.ts'

concurrencySuite('local')
concurrencySuite('local', 'postgres')
