import { createOrigins } from '@boxoffice/node-http'
import type { Profile } from '@boxoffice/protocol'
import type { ResolvedBrokerConfig } from '../../config/config.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Log } from '../../host/log.ts'
import { clientAddress } from '../../http/address.ts'
import type { Metrics } from '../../http/metrics.ts'
import type { Surface } from '../../http/surface.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { Store } from '../../store/store.ts'
import { type KnownCallers, knownCallers, upgradeCallers } from '../facade/callers.ts'
import { FacadeSessions } from '../facade/facade-sessions.ts'
import { SandboxEnvironments } from '../facade/sandbox-environments.ts'
import { Boxes } from './boxes.ts'
import { createBoxesApp } from './boxes-app.ts'
import { createCommandSockets } from './command-sockets.ts'
import { Unattended } from './commands/unattended.ts'
import { createDataplaneApp } from './dataplane-app.ts'

export type LangSmithOptions = Omit<KnownCallers, 'addressOf'> & {
  settings: ResolvedBrokerConfig
  store: Pick<Store, 'environments'>
  profiles: ReadonlyMap<string, Profile>
  sessions: SessionService
  dataplane: DataplaneClient
  metrics: Metrics
  log: Log
  /** Where clients reach the broker. */
  url: string
}

const BASE = '/compat/langsmith'

/** The facade for LangSmith's clients (contract 7.2): it translates, and owns no sandbox logic. */
export function createLangSmith({
  settings,
  store,
  profiles,
  sessions,
  dataplane,
  metrics,
  log,
  url,
  ...known
}: LangSmithOptions): Surface {
  const callers = { ...known, addressOf: clientAddress(settings.trustedProxies) }
  const environments = new SandboxEnvironments(store.environments)
  const boxes = new Boxes({
    sessions: new FacadeSessions({ sessions, surface: 'langsmith', prefix: 'langsmith/' }),
    environments,
    profiles,
    dataplaneBase: `${url}${BASE}/dp`,
  })
  const control = createBoxesApp({ boxes, callerOf: knownCallers(callers), metrics, log })
  const origins = createOrigins(settings.corsOrigins)
  const sockets = createCommandSockets({
    boxes,
    callerOf: upgradeCallers(callers),
    dataplane,
    environments,
    unattended: new Unattended(log),
    originAllowed: (request) => origins.allowed(request),
    log,
  })
  return {
    name: 'langsmith',
    mounts: [
      // The clients of 0.9 say `/v2`, those of 0.12 `/api/v2`.
      { path: `${BASE}/v2/sandboxes`, app: control },
      { path: `${BASE}/api/v2/sandboxes`, app: control },
      { path: `${BASE}/dp`, app: createDataplaneApp({ boxes, callerOf: knownCallers(callers), dataplane, environments, metrics, log }) },
    ],
    upgrade: sockets.upgrade,
    close: sockets.close,
  }
}
