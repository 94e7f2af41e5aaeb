import { mcpFailuresSuite, relayConnectSuite } from './suites/mcp-failures.ts'

mcpFailuresSuite('docker')
relayConnectSuite('docker')
