import type { PrincipalLimit, RateLimit } from '@boxoffice/node-http'
import type { Profile } from '@boxoffice/protocol'
import type { Principals } from '../../access/principals.ts'
import type { AgentClient } from '../../agents/agent-client.ts'
import type { Placement } from '../../agents/placement.ts'
import { mayNameImageOf, type ResolvedBrokerConfig } from '../../config/config.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Log } from '../../host/log.ts'
import { clientAddress } from '../../http/address.ts'
import type { Metrics } from '../../http/metrics.ts'
import { type Bytes, type Listener, listen } from '../../http/server.ts'
import type { Surface } from '../../http/surface.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { Store } from '../../store/store.ts'
import { createBoxApp, createBoxConsole } from './app.ts'
import { createCallers } from './callers.ts'
import { answerRpc, type RpcResponse } from './rpc.ts'
import { BoxService } from './service.ts'
import { createBoxSockets } from './sockets.ts'
import { WorkspaceQuota } from './workspace-quota.ts'

export type BoxOptions = {
  settings: ResolvedBrokerConfig
  store: Store
  profiles: ReadonlyMap<string, Profile>
  sessions: SessionService
  dataplane: DataplaneClient
  placement: Placement
  client: AgentClient
  principals: Principals
  authFailures: RateLimit
  controlLimit: PrincipalLimit
  metrics: Metrics
  log: Log
  now: () => number
}

/** The Box surface, whole (contract 4.7). */
export interface Box extends Surface {
  /** One message of the program that started this one. */
  rpc(message: string): Promise<RpcResponse>
}

const BASE = '/compat/box'
const CONSOLE = '/api/v1/box'

export function createBox(options: BoxOptions): Box {
  const { settings, store, client, principals, authFailures, controlLimit, metrics, log, dataplane } = options
  const box = new BoxService({
    ...options,
    settings: settings.box,
    mayNameImage: mayNameImageOf(settings),
    agents: store.agents,
    boxErrors: store.boxErrors,
    quota: new WorkspaceQuota(store.agents, client),
  })
  const callers = createCallers({ principals, controlToken: settings.box.controlToken, authFailures, controlLimit })
  const parts = { box, callers, addressOf: clientAddress(settings.trustedProxies), metrics, log }
  const app = createBoxApp(parts)
  const sockets = createBoxSockets({ box, callers, dataplane, corsOrigins: settings.corsOrigins, log })
  const listeners: Listener[] = []
  return {
    name: 'box',
    mounts: [
      { path: BASE, app },
      { path: CONSOLE, app: createBoxConsole(parts) },
    ],
    upgrade: (request, socket, head) => sockets.upgrade(request, socket, head, { base: BASE }),
    async listen() {
      const ports: { boxPort?: number; boxRpcPort?: number } = {}
      for (const name of ['boxPort', 'boxRpcPort'] as const) {
        const port = settings[name]
        if (port === undefined) continue
        const atRoot: Bytes = {
          owns: () => false,
          handle: () => {},
          upgrade: (request, socket, head) => sockets.upgrade(request, socket, head, { base: '', rpcAtRoot: name === 'boxRpcPort' }),
        }
        const listener = await listen(app, atRoot, { ...settings, port })
        listeners.push(listener)
        ports[name] = listener.port
      }
      return ports
    },
    rpc: (message) => answerRpc(box, callers.parent(), message, log),
    async close() {
      await sockets.close()
      await Promise.all(listeners.map((listener) => listener.close()))
    },
  }
}
