import type { Profile } from '@boxoffice/protocol'
import { KeyService } from '../../access/key-service.ts'
import type { Principals } from '../../access/principals.ts'
import type { AgentClient } from '../../agents/agent-client.ts'
import { dataplaneAt } from '../../agents/dataplane-mode.ts'
import type { KeyRotation } from '../../agents/key-rotation.ts'
import type { Placement } from '../../agents/placement.ts'
import type { ResolvedBrokerConfig } from '../../config/config.ts'
import type { EventFeed } from '../../events/event-feed.ts'
import type { Log } from '../../host/log.ts'
import type { SecretKeys } from '../../host/secret-keys.ts'
import type { Surface } from '../../http/surface.ts'
import type { Previews } from '../../previews/previews.ts'
import type { PreviewRoutes } from '../../previews/routes.ts'
import type { Registration } from '../../registration/registration.ts'
import { SecretService } from '../../secrets/secret-service.ts'
import { SessionSecrets } from '../../secrets/session-secrets.ts'
import type { Members } from '../../sessions/members.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { SessionEgressService } from '../../sessions/session-egress.ts'
import { TenantUsage } from '../../sessions/tenant-usage.ts'
import type { Threads } from '../../sessions/threads.ts'
import type { Store } from '../../store/store.ts'
import { agentRoutes } from './agents.ts'
import { auditRoutes } from './audit.ts'
import { enrollTokenRoutes } from './enroll-tokens.ts'
import { keyRoutes } from './keys.ts'
import { type Operations, operationRoutes } from './operations.ts'
import { previewRoutes } from './previews.ts'
import { profileRoutes } from './profiles.ts'
import { egressRoutes } from './sandbox/egress.ts'
import { type EventRouteOptions, eventRoutes } from './sandbox/events.ts'
import { memberRoutes } from './sandbox/members.ts'
import { portRoutes } from './sandbox/ports.ts'
import { scopeRoutes } from './sandbox/scopes.ts'
import { sessionRoutes } from './sandbox/sessions.ts'
import { threadRoutes } from './sandbox/threads.ts'
import { secretRoutes } from './secrets.ts'
import { signingKeyRoutes } from './signing-keys.ts'
import { usageRoutes } from './usage.ts'

export type V1Options = Operations & {
  settings: ResolvedBrokerConfig
  /** The broker's public URL. */
  url: string
  store: Store
  client: AgentClient
  profiles: ReadonlyMap<string, Profile>
  principals: Principals
  placement: Placement
  rotation: KeyRotation
  sessions: SessionService
  members: Members
  egress: SessionEgressService
  previews: Previews
  previewRoutes: PreviewRoutes
  threads: Threads
  registration: Registration
  /** What secrets of tenants are sealed under. */
  secretKeys: () => SecretKeys
  log: Log
  feed: EventFeed
  eventTimes: Pick<EventRouteOptions, 'pingMs' | 'stallMs'>
  now: () => number
}

/** The broker's own API. */
export const createV1 = ({
  settings,
  url,
  store,
  client,
  profiles,
  sessions,
  members,
  threads,
  registration,
  secretKeys: keys,
  feed,
  eventTimes,
  ...parts
}: V1Options): Surface => ({
  name: 'v1',
  routes: [
    ...sessionRoutes(sessions, settings.features, dataplaneAt(url)),
    ...eventRoutes({ sessions, store: store.events, endings: store.endings, feed, ...eventTimes }),
    ...memberRoutes(members),
    ...egressRoutes(parts.egress),
    ...portRoutes(parts.previews),
    ...previewRoutes(parts.previewRoutes, registration.registry),
    ...threadRoutes(threads),
    ...keyRoutes(new KeyService(store.keys, parts.principals, parts.now)),
    ...secretRoutes(new SecretService({ secrets: store.secrets, keys, now: parts.now })),
    ...signingKeyRoutes(parts.rotation),
    ...profileRoutes(profiles),
    ...scopeRoutes(),
    ...usageRoutes({ store, usage: new TenantUsage({ store, client }), settings, profiles }),
    ...auditRoutes(store.audit),
    ...agentRoutes({
      ...registration,
      secrets: new SessionSecrets({ ...store, ...parts, keys }),
      isHeard: (agent) => parts.placement.isHeard(agent),
    }),
    ...enrollTokenRoutes(registration.enrollment),
    ...operationRoutes(parts),
  ],
})
