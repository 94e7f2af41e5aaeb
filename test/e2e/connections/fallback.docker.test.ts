import { fallbackSuite } from './fallback.ts'

fallbackSuite('docker')
