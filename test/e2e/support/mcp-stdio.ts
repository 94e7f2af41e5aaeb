import { mountEnvironment } from '@boxoffice/mcp'
import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'

// An MCP server as a user starts it: one caller, whose key is in the environment.
const { BOXOFFICE_URL = '', BOXOFFICE_API_KEY = '' } = process.env

serveStdio(() => {
  const server = new McpServer({ name: 'boxoffice-stdio', version: '0.1.0' })
  mountEnvironment(server, { brokerUrl: BOXOFFICE_URL, credential: () => BOXOFFICE_API_KEY })
  return server
})
