import type { McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { Broker, type BrokerOptions } from './broker.ts'
import { toProtocolError } from './errors.ts'
import { acquire, heartbeat, type Method, perform, refresh, release } from './methods.ts'
import { mountTools } from './tools.ts'

/** Checked by the methods' own schemas, whose errors name the field and carry the envelope. */
const AnyParams = z.record(z.string(), z.unknown())
type AnyResult = { [field: string]: unknown }

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
  const mount = <P extends object, R extends object>(method: Method<P, R>): void =>
    server.server.setRequestHandler(method.name, { params: AnyParams }, async ({ _meta, ...body }, context): Promise<AnyResult> => {
      try {
        return (await perform(method, body, broker, context)) as AnyResult
      } catch (thrown) {
        throw toProtocolError(thrown, report)
      }
    })
  mount(acquire)
  mount(refresh)
  mount(heartbeat)
  mount(release)
  mountTools(server, broker, report)
}
