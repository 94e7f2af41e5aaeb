import { truthSuite } from './truth.ts'

truthSuite('local')
