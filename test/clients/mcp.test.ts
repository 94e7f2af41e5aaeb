import { mcpSuite } from './suites/mcp.ts'
import { WAYS } from './support/mcp-connection.ts'

mcpSuite({ provider: 'local', ways: WAYS })
mcpSuite({ provider: 'local', ways: [{ transport: 'http', era: 'modern' }], mode: 'relay', brief: true })
