import { type ConnectOptions, connect, type Session } from '@boxoffice/client'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { VERSION } from '@boxoffice/kit/version'
import { BoxofficeError, type RelayPreference } from '@boxoffice/protocol'
import { ProtocolError, ProtocolErrorCode, Server, type ServerContext } from '@modelcontextprotocol/server'
import { toResult } from './base/answering.ts'
import { Broker } from './base/broker.ts'
import type { ToolCall } from './base/tool.ts'
import { serveMethods } from './environment/serve-methods.ts'
import { withProgress } from './progress.ts'
import { isEnded } from './tools/session.ts'
import { LISTED, toolNamed } from './tools/tools.ts'

export type ToolServersOptions = Pick<ConnectOptions, 'fetch' | 'WebSocket'> & {
  brokerUrl: string
  /** How sessions are reached. Default: as the SDK does. */
  relay?: RelayPreference | undefined
  /** Told of defects. Callers are not. */
  onerror?: ((error: Error) => void) | undefined
}

/** Whose server it is. */
export type Caller = {
  /** The caller's own credential for the broker: it decides which threads are the caller's. */
  credential: string
  /** Whose sandbox the tools use; without one only the `environment` tools work. */
  thread: string | undefined
  /** Ends with the caller's connection. */
  signal?: AbortSignal | undefined
}

/** Sessions that are kept at once; one more takes the place of that which was used the longest ago. */
const MAX_SESSIONS = 1000

const INSTRUCTIONS =
  'Commands and files of these tools are those of one sandbox, which keeps its state between calls. Files are in /workspace. ' +
  'Use process_start for what runs on, such as servers.'

/**
 * MCP servers with all tools and the four `environment` methods (contract 2.12). A server is made for each connection, or for each
 * request: tools and sessions are made once and shared. Servers of different credentials never share a session.
 */
export class ToolServers {
  readonly #options: ToolServersOptions
  readonly #life = new AbortController()
  readonly #sessions = new BoundedCache<string, Promise<Session>>(MAX_SESSIONS)

  constructor(options: ToolServersOptions) {
    this.#options = options
  }

  server({ credential, thread, signal }: Caller): Server {
    const { brokerUrl, fetch, onerror } = this.#options
    const broker = new Broker({ brokerUrl, credential: () => credential, fetch: fetch as typeof globalThis.fetch | undefined })
    const report = (error: Error): void => onerror?.(error)
    const server = new Server({ name: 'boxoffice', version: VERSION }, { capabilities: { tools: {} }, instructions: INSTRUCTIONS })
    serveMethods(server, broker, report)
    server.setRequestHandler('tools/list', () => ({ tools: [...LISTED] }))
    server.setRequestHandler('tools/call', async ({ params }, context) => {
      const tool = toolNamed(params.name)
      if (tool === undefined)
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, `there is no tool ${JSON.stringify(params.name.slice(0, 100))}`)
      const call = this.#call({ credential, thread, signal }, broker, context)
      const work = async () => {
        try {
          return await tool.call(params.arguments ?? {}, call)
        } catch (thrown) {
          if (isEnded(thrown)) call.forgetSession()
          throw thrown
        }
      }
      // What a cancelled call has failed with is no defect.
      return await toResult(withProgress(params.name, context, work), (error) => call.signal.aborted || report(error))
    })
    return server
  }

  /** Ends what its servers are doing; sessions stay. */
  close(): void {
    this.#life.abort(new DOMException('the server was closed', 'AbortError'))
  }

  #call({ credential, thread, signal }: Caller, broker: Broker, context: ServerContext): ToolCall {
    const key = JSON.stringify([credential, thread])
    return {
      broker,
      context,
      signal: signal === undefined ? context.mcpReq.signal : AbortSignal.any([signal, context.mcpReq.signal]),
      session: () => this.#session(key, credential, thread),
      forgetSession: () => void this.#sessions.delete(key),
    }
  }

  #session(key: string, apiKey: string, thread: string | undefined): Promise<Session> {
    if (thread === undefined)
      throw new BoxofficeError('INVALID_REQUEST', 'this connection names no thread: send X-Boxoffice-Thread, or ?thread= in the URL')
    return this.#sessions.getOrMake(key, () => {
      const { brokerUrl, fetch, WebSocket, relay } = this.#options
      const client = connect(brokerUrl, { apiKey, fetch, WebSocket, signal: this.#life.signal })
      const session = client.session(thread, { relay })
      // Who asks next is not told of this failure.
      session.catch(() => this.#sessions.delete(key))
      return session
    })
  }
}
