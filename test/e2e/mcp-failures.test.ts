import { mcpFailuresSuite, relayConnectSuite } from './suites/mcp-failures.ts'

mcpFailuresSuite('local')
relayConnectSuite('local')
