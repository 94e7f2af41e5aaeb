import { fallbackSuite } from './fallback.ts'

fallbackSuite('local')
