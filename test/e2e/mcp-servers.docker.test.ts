import { mcpServersSuite } from './suites/mcp-servers.ts'

mcpServersSuite('docker')
