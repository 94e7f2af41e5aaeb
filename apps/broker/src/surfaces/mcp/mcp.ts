import type { AgentClient } from '../../agents/agent-client.ts'
import type { Placement } from '../../agents/placement.ts'
import { isExposed, mayNameImageOf, type ResolvedBrokerConfig } from '../../config/config.ts'
import { configuredServers } from '../../config/configured-servers.ts'
import { isShared } from '../../config/shared-database.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Log } from '../../host/log.ts'
import type { Metrics } from '../../http/metrics.ts'
import type { Surface } from '../../http/surface.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { Store } from '../../store/store.ts'
import type { Credentials } from '../../tokens/credentials.ts'
import { BoxHost } from './box-host.ts'
import { createMcpEndpoint, describedEndpoint } from './endpoint.ts'
import { keptServers } from './kept-servers.ts'
import { McpServers } from './mcp-servers.ts'
import { mcpRoutes, SERVERS_PATH } from './routes.ts'
import { type Clock, systemClock } from './schedule.ts'

export type McpOptions = {
  settings: ResolvedBrokerConfig
  sessions: SessionService
  dataplane: DataplaneClient
  placement: Placement
  client: AgentClient
  store: Store
  credentials: Credentials
  /** The broker's public URL. */
  url: string
  metrics: Metrics
  log: Log
  /** What the first attempt of each server waits for; undefined: nothing. */
  after: Promise<void> | undefined
  clock?: Clock | undefined
}

/** MCP servers in sandboxes: their routes, their endpoints, their lives (contract 4.6). */
export function createMcp({ settings, store, credentials, url, metrics, log, after, clock = systemClock, ...parts }: McpOptions): Surface {
  const host = new BoxHost({ ...parts, store, log, hostFallback: settings.mcp.hostFallback ?? !isExposed(settings) })
  const servers = new McpServers({
    host,
    clock,
    log,
    after,
    configured: configuredServers(settings),
    kept: keptServers(settings.dataDir),
    // Two brokers would take each server away from each other.
    isShared: isShared(settings),
  })
  const endpoint = createMcpEndpoint({ find: (name) => servers.find(name), credentials, store, metrics, log })
  return {
    name: 'mcp',
    routes: mcpRoutes(servers, url, mayNameImageOf(settings)),
    mounts: [{ path: SERVERS_PATH, app: endpoint, described: describedEndpoint(SERVERS_PATH) }],
    start: () => servers.start(),
    close: () => servers.close(),
  }
}
