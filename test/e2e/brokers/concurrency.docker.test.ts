import { concurrencySuite } from './concurrency.ts'

concurrencySuite('docker')
