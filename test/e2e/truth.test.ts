import { truthSuite } from './suites/truth.ts'

truthSuite('local')
