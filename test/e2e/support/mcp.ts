import { once } from 'node:events'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { mountEnvironment } from '@boxoffice/mcp'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'

/** The two revisions of MCP that are about: 2025 with its handshake, 2026 without. */
export type Era = 'legacy' | 'modern'

/** An MCP server on HTTP that lends nobody its own key: whoever calls brings theirs as bearer token. */
export type McpHttp = { url: URL; [Symbol.asyncDispose](): Promise<void> }

export const startMcpHttp = async (brokerUrl: string): Promise<McpHttp> => {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'boxoffice-http', version: '0.1.0' })
    mountEnvironment(server, { brokerUrl, credential: ({ http }) => http?.authInfo?.token ?? '' })
    return server
  })
  const serve = toNodeHandler({
    fetch: (request) => {
      const token = request.headers.get('authorization')?.replace(/^Bearer /, '')
      return handler.fetch(request, token === undefined ? {} : { authInfo: { token, clientId: token, scopes: [] } })
    },
  })
  const http = createServer((request, response) => void serve(request, response))
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  const address = http.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    url: new URL(`http://127.0.0.1:${address.port}/mcp`),
    [Symbol.asyncDispose]: async () => {
      await handler.close()
      http.closeAllConnections()
      http.close()
      await once(http, 'close')
    },
  }
}

const newClient = (era: Era): Client =>
  new Client({ name: 'test', version: '0.1.0' }, { versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' } })

export const connectHttp = async (url: URL, key: string | undefined, era: Era): Promise<Client> => {
  const client = newClient(era)
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` }
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
  return client
}

export const connectStdio = async (brokerUrl: string, key: string | undefined, era: Era): Promise<Client> => {
  const client = newClient(era)
  const program = fileURLToPath(new URL('mcp-stdio.ts', import.meta.url))
  const env = { PATH: process.env.PATH ?? '', BOXOFFICE_URL: brokerUrl, ...(key === undefined ? {} : { BOXOFFICE_API_KEY: key }) }
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [program], env, stderr: 'ignore' }))
  return client
}
