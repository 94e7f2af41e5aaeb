import { MODES } from '../e2e/support/stack.ts'
import { backendSuite } from './suites/deepagents.ts'

backendSuite('local', MODES)
