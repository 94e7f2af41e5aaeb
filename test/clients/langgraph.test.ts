import { MODES } from '../e2e/support/stack.ts'
import { langgraphSuite } from './suites/langgraph.ts'

langgraphSuite('local', MODES)
