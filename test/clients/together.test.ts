import { togetherSuite } from './suites/together.ts'
import { stackOf } from './support/stack-of.ts'

togetherSuite(stackOf({ provider: 'local' }))
