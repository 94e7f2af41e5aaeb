import { MODES } from '../e2e/support/stack.ts'
import { runsSuite } from './suites/deepagents-runs.ts'

runsSuite('local', MODES)
