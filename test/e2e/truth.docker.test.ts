import { truthSuite } from './suites/truth.ts'

truthSuite('docker')
