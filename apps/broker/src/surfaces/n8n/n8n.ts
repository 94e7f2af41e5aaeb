import type { ResolvedBrokerConfig } from '../../config/config.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Log } from '../../host/log.ts'
import { clientAddress } from '../../http/address.ts'
import type { Metrics } from '../../http/metrics.ts'
import type { Surface } from '../../http/surface.ts'
import type { SessionService } from '../../sessions/service.ts'
import { type KnownCallers, knownCallers } from '../facade/callers.ts'
import { FacadeSessions } from '../facade/facade-sessions.ts'
import { createN8nApp } from './n8n-app.ts'
import { Sandboxes } from './sandboxes.ts'

export type N8nOptions = Omit<KnownCallers, 'addressOf'> & {
  settings: ResolvedBrokerConfig
  sessions: SessionService
  dataplane: DataplaneClient
  metrics: Metrics
  log: Log
}

/** The facade for n8n's sandbox client (contract 7.5). */
export function createN8n({ settings, sessions, dataplane, metrics, log, ...known }: N8nOptions): Surface {
  const callerOf = knownCallers({ ...known, addressOf: clientAddress(settings.trustedProxies) })
  const sandboxes = new Sandboxes(new FacadeSessions({ sessions, surface: 'n8n', prefix: 'n8n/' }))
  return { name: 'n8n', mounts: [{ path: '/compat/n8n/sandboxes', app: createN8nApp({ sandboxes, callerOf, dataplane, metrics, log }) }] }
}
