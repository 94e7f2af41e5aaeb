import { fallbackSuite } from './suites/fallback.ts'

fallbackSuite('local')
