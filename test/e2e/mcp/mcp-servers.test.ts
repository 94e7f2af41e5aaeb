import { mcpServersSuite } from './mcp-servers.ts'

mcpServersSuite('local')
