import type { AgentClient } from '../../agents/agent-client.ts'
import type { Placement } from '../../agents/placement.ts'
import { isExposed, mayNameImageOf, type ResolvedBrokerConfig } from '../../config/config.ts'
import { configuredServers } from '../../config/configured-servers.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Log } from '../../host/log.ts'
import { SecretKeys } from '../../host/secret-keys.ts'
import type { Metrics } from '../../http/metrics.ts'
import type { Mount, Surface } from '../../http/surface.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { Store } from '../../store/store.ts'
import { BrokerTokens } from '../../tokens/broker-tokens.ts'
import type { Credentials } from '../../tokens/credentials.ts'
import { BoxHost } from './box-host.ts'
import { createMcpEndpoint, describedEndpoint } from './endpoint.ts'
import { keptServers } from './kept-servers.ts'
import { McpServers } from './mcp-servers.ts'
import { PEERS_PATH } from './peers/paths.ts'
import { createPeerApp } from './peers/peer-app.ts'
import { PeerClient } from './peers/peer-client.ts'
import { mcpRoutes, SERVERS_PATH } from './routes.ts'
import { type Clock, systemClock } from './schedule.ts'
import { ownServers, type Servers } from './servers.ts'
import { SharedMcpServers } from './shared-servers.ts'

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
  brokerId: string
  /** Where the other brokers of the database reach this one; undefined where it is not known. */
  internalUrl: string | undefined
  now: () => number
}

/** MCP servers in sandboxes: their routes, their endpoints, their lives (contract 4.6). */
export function createMcp(options: McpOptions): Surface {
  const { settings, store, credentials, url, metrics, log } = options
  const { servers, lives, mounts } = serversOf(options)
  const endpoint = createMcpEndpoint({ locate: (name) => servers.locate(name), credentials, store, metrics, log })
  return {
    name: 'mcp',
    routes: mcpRoutes(servers, url, mayNameImageOf(settings)),
    mounts: [{ path: SERVERS_PATH, app: endpoint, described: describedEndpoint(SERVERS_PATH) }, ...mounts],
    start: () => lives.start(),
    close: () => lives.close(),
  }
}

type OfBroker = { servers: Servers; lives: { start(): void; close(): Promise<void> }; mounts: Mount[] }

/** Those of this broker alone, or those that it shares with the other brokers of a database. */
function serversOf({
  settings,
  store,
  metrics,
  log,
  after,
  clock = systemClock,
  brokerId,
  internalUrl,
  now,
  ...parts
}: McpOptions): OfBroker {
  const host = new BoxHost({ ...parts, store, log, hostFallback: settings.mcp.hostFallback ?? !isExposed(settings) })
  const configured = configuredServers(settings)
  const common = { host, clock, log, after, configured }
  if (store.mcpServers === null || settings.secretKeyFile === undefined) {
    // Two brokers on a directory would take each server away from each other.
    const lives = new McpServers({ ...common, kept: keptServers(settings.dataDir), isShared: settings.sharedDataDir })
    return { servers: ownServers(lives), lives, mounts: [] }
  }
  if (internalUrl === undefined)
    log.warn('other brokers do not know where to reach this one, so it runs no MCP servers: set internal_url (--internal-url)')
  const secrets = new SecretKeys(settings.secretKeyFile)
  const tokens = new BrokerTokens({ secrets, brokerId, now })
  const shared = { store: store.mcpServers, secrets, peers: new PeerClient(tokens), brokerId, url: internalUrl }
  const servers = new SharedMcpServers({ ...common, ...shared, leaseMs: settings.brokerTimeout * 1000 })
  const app = createPeerApp({ tokens, servers, metrics, log })
  return { servers, lives: servers, mounts: [{ path: PEERS_PATH, app }] }
}
