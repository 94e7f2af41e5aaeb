import { fallbackSuite } from './suites/fallback.ts'

fallbackSuite('docker')
