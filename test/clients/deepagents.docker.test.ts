import { MODES } from '../e2e/support/stack.ts'
import { engineSuite } from './suites/deepagents-engine.ts'

for (const mode of MODES) engineSuite('docker', mode)
