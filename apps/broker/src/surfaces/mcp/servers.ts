import { withTimeout } from '@boxoffice/kit/with-timeout'
import type { McpServerConfig } from '../../config/mcp-server.ts'
import type { ServerBox } from './host.ts'
import type { McpServers } from './mcp-servers.ts'
import type { RuntimeInfo } from './runtime-info.ts'
import type { McpServerRuntime } from './server-runtime.ts'

/** A server as it is told of, wherever it runs. */
export type ServerView = {
  name: string
  pipelineUuid: string
  info: RuntimeInfo
  /** Where it runs, or ran last; null before it has a sandbox. */
  box: Pick<ServerBox, 'sessionId' | 'isolation'> | null
}

/** Where the endpoint of a server finds it. */
export type Located = {
  /** The session that it runs in; undefined before. */
  sessionId: string | undefined
  /** It runs in this broker; undefined where it does not. */
  runtime: McpServerRuntime | undefined
  /** Asks the broker that runs it; undefined where none does. */
  forward: ((request: Request) => Promise<Response>) | undefined
}

/** The MCP servers that this broker knows, for its routes. */
export interface Servers {
  list(): Promise<ServerView[]>
  /** Throws NOT_FOUND. */
  get(name: string): Promise<ServerView>
  /** Adds one and starts it. The same one again is left alone while it lives, and begins anew when it has given up. */
  add(config: McpServerConfig): Promise<{ isNew: boolean }>
  /** One, once it works or is known not to, at the latest after `ms`. */
  settled(name: string, ms: number): Promise<ServerView>
  /** Ends one with its process, and with its sandbox if it was the last one there. */
  remove(name: string): Promise<void>
  locate(name: string): Promise<Located | undefined>
}

export const viewOf = (runtime: McpServerRuntime): ServerView => ({
  name: runtime.config.name,
  pipelineUuid: runtime.config.pipeline_uuid,
  info: runtime.info(),
  box: runtime.box,
})

/** Those of a broker that shares them with nobody. */
export const ownServers = (servers: McpServers): Servers => ({
  list: async () => servers.list().map(viewOf),
  get: async (name) => viewOf(servers.get(name)),
  add: async (config) => ({ isNew: (await servers.add(config)).isNew }),
  async settled(name, ms) {
    const runtime = servers.get(name)
    await withTimeout(runtime.ready, ms, () => undefined)
    return viewOf(runtime)
  },
  remove: (name) => servers.remove(name),
  async locate(name) {
    const runtime = servers.find(name)
    return runtime && { sessionId: runtime.box?.sessionId, runtime, forward: undefined }
  },
})
