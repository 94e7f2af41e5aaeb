import { MODES } from '../e2e/support/stack.ts'
import { mcpSuite } from './suites/mcp.ts'

for (const mode of MODES) mcpSuite({ provider: 'docker', ways: [{ transport: 'http', era: 'modern' }], mode, brief: true })
