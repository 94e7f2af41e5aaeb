import type { McpServer } from '@modelcontextprotocol/server'
import { answeringWith } from './base/answering.ts'
import { Broker, type BrokerOptions } from './base/broker.ts'
import { serveMethods } from './environment/serve-methods.ts'
import { acquireTool, type EnvironmentTool, heartbeatTool, refreshTool, releaseTool } from './environment/tools.ts'

/**
 * Gives an MCP server the methods `environment/acquire | refresh | heartbeat | release` [4-173] and the tools
 * `environment_acquire` … that mirror them [C-73]. Call it before the server connects. What callers are not told of a defect
 * goes to `server.server.onerror`.
 *
 *   const server = new McpServer({ name: 'my-server', version: '1.0.0' })
 *   mountEnvironment(server, { brokerUrl: 'http://127.0.0.1:7070', credential: () => process.env.BOXOFFICE_API_KEY ?? '' })
 */
export const mountEnvironment = (server: McpServer, options: BrokerOptions): void => {
  const broker = new Broker(options)
  const report = (error: Error): void => server.server.onerror?.(error)
  serveMethods(server.server, broker, report)
  const answering = answeringWith(report)
  const mount = <A>({ name, run, ...shown }: EnvironmentTool<A>): void => {
    server.registerTool(
      name,
      shown,
      answering((args: A, context) => run(args, { broker, context })),
    )
  }
  mount(acquireTool)
  mount(refreshTool)
  mount(heartbeatTool)
  mount(releaseTool)
}
