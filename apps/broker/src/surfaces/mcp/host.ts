import type { ManagedProcess } from '@boxoffice/protocol'
import type { McpServerConfig } from '../../config/mcp-server.ts'
import type { LineSocket, LineSocketHandlers } from '../../dataplane/line-socket.ts'

/** Where a server was given a place. */
export type ServerBox = {
  /** The session's id, `ssn_…`. */
  sessionId: string
  isolation: string
  warnings: readonly string[]
}

/** What a server needs of the product, one call for each phase. All failures are `McpServerError`, or get the phase of the call. */
export interface McpHost {
  /** The server is to run: its files are in its sandbox from the first making on. */
  join(config: McpServerConfig): void
  /** It is not any more; the sandbox goes with its last server. */
  leave(config: McpServerConfig): Promise<void>
  open(config: McpServerConfig, signal: AbortSignal): Promise<ServerBox>
  install(config: McpServerConfig, box: ServerBox, signal: AbortSignal): Promise<void>
  start(config: McpServerConfig, box: ServerBox, signal: AbortSignal): Promise<void>
  attach(config: McpServerConfig, box: ServerBox, handlers: LineSocketHandlers, signal: AbortSignal): Promise<LineSocket>
  process(config: McpServerConfig, box: ServerBox): Promise<Pick<ManagedProcess, 'status' | 'exit_code' | 'signal' | 'stderr_preview'>>
  stop(config: McpServerConfig, box: ServerBox): Promise<void>
}
