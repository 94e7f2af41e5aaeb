import { createAuthenticator } from '../auth/auth.ts'
import type { BrokerTrust } from '../broker-link/broker-trust.ts'
import type { Journal } from '../broker-link/journal.ts'
import type { AgentConfig } from '../config/config.ts'
import { countTraffic } from '../control/agent-metrics.ts'
import { operations } from '../control/operations.ts'
import { createAccessJournal } from '../http/access-journal.ts'
import { createDataplaneLimits } from '../http/dataplane-limits.ts'
import { httpServer, listen, listenOnSocket, type Tls } from '../http/listeners.ts'
import type { ExposedPorts } from '../preview/exposed-ports.ts'
import type { PreviewBroker } from '../preview/preview-broker.ts'
import { createPreviewHosts } from '../preview/preview-hosts.ts'
import { createDataplane, type DataplaneOptions } from './app.ts'

export type ServeDataplaneOptions = Pick<DataplaneOptions, 'sandboxes' | 'disk' | 'quotas' | 'log' | 'metrics'> & {
  config: Pick<AgentConfig, 'host' | 'port' | 'dataplaneListen' | 'trustedProxies' | 'maxConnections' | 'corsOrigins' | 'dataplaneRates'>
  tls: Tls
  trust: BrokerTrust
  journal: Journal
  /** Ports that are previews, and what is asked of the broker for them. */
  previews: { exposed: ExposedPorts; exchange: PreviewBroker['exchange'] }
  /** Why the agent cannot work now; empty when it can. */
  unreadiness: () => string[]
}

/** Listens for clients and relays, and for whoever asks how the agent is. Returns where, and what ends it. */
export const serveDataplane = async ({
  config,
  tls,
  trust,
  journal,
  previews,
  unreadiness,
  ...options
}: ServeDataplaneOptions): Promise<{ url: string; close: () => Promise<void> }> => {
  const { keys, issuer, revocations, binding, clock } = trust
  const access = createAccessJournal(journal, options.sandboxes)
  const dataplane = createDataplane({
    ...options,
    keys,
    revocations,
    issuer,
    thumbprint: binding.thumbprint,
    now: clock.now,
    corsOrigins: config.corsOrigins,
    limits: createDataplaneLimits(config.dataplaneRates),
    access,
  })
  const { thumbprint } = binding
  const auth = createAuthenticator({ keys, revocations, issuer, thumbprint, sandboxes: options.sandboxes, now: clock.now })
  const hosts = createPreviewHosts({
    ...previews,
    auth,
    keys,
    revocations,
    access,
    now: clock.now,
    log: options.log,
    trustedProxies: config.trustedProxies,
  })
  const other = operations({ unreadiness, metrics: options.metrics })
  const socketPath = config.dataplaneListen?.slice('unix:'.length)
  const { server, drain } = httpServer(
    socketPath === undefined ? tls : undefined,
    (request, response) => {
      if (!hosts.handle(request, response) && !dataplane.handle(request, response)) other(request, response)
    },
    config,
  )
  server.on('upgrade', (request, socket, head) => {
    if (!hosts.upgrade(request, socket, head)) dataplane.upgrade(request, socket, head)
  })
  countTraffic(options.metrics, server)
  // Uploads may take as long as they move; the dataplane gives up one that stalls by itself.
  server.requestTimeout = 0
  const url = socketPath === undefined ? await listen(server, config.host, config.port, tls) : await listenOnSocket(server, socketPath)
  return {
    url,
    async close() {
      hosts.close()
      await dataplane.close()
      await drain()
    },
  }
}
