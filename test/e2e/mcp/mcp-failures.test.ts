import { mcpFailuresSuite, relayConnectSuite } from './mcp-failures.ts'

mcpFailuresSuite('local')
relayConnectSuite('local')
