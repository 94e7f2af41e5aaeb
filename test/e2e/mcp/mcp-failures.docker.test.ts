import { mcpFailuresSuite, relayConnectSuite } from './mcp-failures.ts'

mcpFailuresSuite('docker')
relayConnectSuite('docker')
