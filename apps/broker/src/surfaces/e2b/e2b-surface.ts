import type { Profile } from '@boxoffice/protocol'
import type { ResolvedBrokerConfig } from '../../config/config.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Log } from '../../host/log.ts'
import { clientAddress } from '../../http/address.ts'
import type { Metrics } from '../../http/metrics.ts'
import type { Surface } from '../../http/surface.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { SessionWriter } from '../../sessions/session-writer.ts'
import type { Store } from '../../store/store.ts'
import { type KnownCallers, knownCallers } from '../facade/callers.ts'
import { FacadeSessions } from '../facade/facade-sessions.ts'
import { SandboxEnvironments } from '../facade/sandbox-environments.ts'
import { AccessTokens } from './call/access-tokens.ts'
import { createControlApp } from './control/control-app.ts'
import { Sandboxes } from './control/sandboxes.ts'
import { createEnvd } from './envd.ts'
import { envdCalls } from './envd-calls.ts'
import { Files } from './filesystem/files.ts'
import { Filesystem } from './filesystem/filesystem.ts'
import { Watchers } from './filesystem/watchers.ts'
import { Processes } from './process/processes.ts'

export type E2bOptions = Omit<KnownCallers, 'addressOf'> & {
  settings: ResolvedBrokerConfig
  store: Store
  sessions: SessionService
  writer: SessionWriter
  dataplane: DataplaneClient
  profiles: ReadonlyMap<string, Profile>
  metrics: Metrics
  log: Log
  now: () => number
}

const BASE = '/compat/e2b'
const EXPIRE_EVERY_MS = 1000

/** E2B's control API and in-sandbox API below one path, for their published SDKs (contract 7.3). */
export function createE2b({ settings, store, sessions, writer, dataplane, profiles, metrics, log, now, ...callers }: E2bOptions): Surface {
  const addressOf = clientAddress(settings.trustedProxies)
  const tokens = new AccessTokens({ store })
  const threads = new FacadeSessions({ sessions, surface: 'e2b', prefix: 'e2b/' })
  const environments = new SandboxEnvironments(store.environments)
  const sandboxes = new Sandboxes({ store, sessions, threads, writer, tokens, environments, profiles, now })
  const processes = new Processes(dataplane, environments)
  const watchers = new Watchers(dataplane)
  const calls = envdCalls({ dataplane, processes, filesystem: new Filesystem(dataplane), watchers })
  const { authFailures } = callers
  let timer: NodeJS.Timeout | undefined
  let round: Promise<void> = Promise.resolve()
  const expire = (): void => {
    round = round.then(() => sandboxes.expire()).catch((err: unknown) => log.warn({ err }, 'sandboxes of E2B clients could not be ended'))
  }
  return {
    name: 'e2b',
    mounts: [{ path: BASE, app: createControlApp({ sandboxes, callerOf: knownCallers({ ...callers, addressOf }), metrics, log }) }],
    bytes: createEnvd({ base: BASE, tokens, calls, files: new Files(dataplane), addressOf, authFailures, metrics, log }),
    start() {
      timer = setInterval(expire, EXPIRE_EVERY_MS)
    },
    async close() {
      clearInterval(timer)
      watchers.close()
      await round
    },
  }
}
