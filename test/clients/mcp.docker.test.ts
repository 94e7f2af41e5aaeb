import { mcpSuite } from './suites/mcp.ts'

mcpSuite({ provider: 'docker', ways: [{ transport: 'http', era: 'modern' }], brief: true })
