import { randomUUID } from 'node:crypto'
import { setFastIo } from '@boxoffice/node-http'
import { ListPortsResponse } from '@boxoffice/protocol'
import { createAccess } from './access/access.ts'
import { operatorKey } from './access/operator-key.ts'
import { httpAgentClient } from './agents/agent-client.ts'
import { AgentDirectory } from './agents/agent-directory.ts'
import { KeyRotation } from './agents/key-rotation.ts'
import { Placement } from './agents/placement.ts'
import { AgentSilence } from './agents/silence.ts'
import type { BrokerOverrides, EventTimes, StartedBroker, StartOptions } from './broker-types.ts'
import { isExposed, profilesOf, type ResolvedBrokerConfig } from './config/config.ts'
import { isShared } from './config/shared-database.ts'
import { createDataplaneClient } from './dataplane/client.ts'
import type { PlacedSession } from './domain/session.ts'
import { EventFeed } from './events/event-feed.ts'
import { enrollTokenOf, openDataDir } from './host/data-dir.ts'
import { lockDataDir } from './host/lock.ts'
import { createLog } from './host/log.ts'
import { createApp } from './http/app.ts'
import { internalUrlOf } from './http/internal-url.ts'
import { Metrics } from './http/metrics.ts'
import { ownAgentTls } from './http/server.ts'
import { withPreviews, withUpgrades } from './http/surface.ts'
import { openListeners } from './open-listeners.ts'
import { openStore, signingKeyPlace, storeClock, tenantSecretKeys } from './open-store.ts'
import { openTokens } from './open-tokens.ts'
import { previewUrls } from './previews/preview-urls.ts'
import { Previews } from './previews/previews.ts'
import { PreviewRoutes } from './previews/routes.ts'
import { readiness } from './readiness.ts'
import { createRegistration } from './registration/registration.ts'
import { createPreviewRelay } from './relay/previews.ts'
import { RelayProbe } from './relay/probe.ts'
import { createRelay } from './relay/relay.ts'
import { createSessionAuthorizer } from './relay/session-authorizer.ts'
import { uploadSpliceFrom } from './relay/upload-splice.ts'
import { SessionEgressService } from './sessions/session-egress.ts'
import { createSessions } from './sessions/sessions.ts'
import { createSurfaces } from './surfaces/surfaces.ts'
import { SigningKeys } from './tokens/keys.ts'
import { createReaper } from './upkeep/create-reaper.ts'
import { LiveBrokers } from './upkeep/live-brokers.ts'
import { replayReleases, replayRevocations } from './upkeep/replay-held.ts'

const EVENT_TIMES: EventTimes = { pingMs: 15_000, stallMs: 30_000 }
const PROVISIONING_DRAIN_MS = 10_000

/** Binds the port, then builds every part once, by hand, and puts into `parts` what is to be closed, last first. */
export async function buildBroker(
  settings: ResolvedBrokerConfig,
  overrides: BrokerOverrides,
  { agentStarted: after }: StartOptions,
  parts: AsyncDisposableStack,
) {
  const { monotonic = () => performance.now(), log = createLog(settings.logLevel) } = overrides
  setFastIo(settings.fastIo)
  const brokerId = randomUUID()
  const profiles = profilesOf(settings)
  const eventTimes = { ...EVENT_TIMES, ...overrides.eventTimes }
  openDataDir(settings.dataDir)
  if (settings.databaseUrl === undefined) parts.use(lockDataDir(settings.dataDir, settings.sharedDataDir))
  const store = parts.use(await openStore(settings, overrides.eventTimes?.pollMs))
  const now = overrides.now ?? (await storeClock(settings, store, log, parts))
  const apiKeyCreated = await operatorKey(settings, store, now())
  const enrollToken = settings.enrollToken ?? enrollTokenOf(settings.dataDir)
  const keys = await SigningKeys.open(signingKeyPlace(settings, store, log), now)

  const { listener, own, all, url } = await openListeners(settings, log, parts)
  const { issuer, credentials } = await openTokens({ settings, store, keys, now, monotonic, url })
  // Nobody else runs on this directory, so whatever other brokers were doing is left over.
  if (!isShared(settings)) await store.brokers.forget(null)
  await replayRevocations(store)

  const base = { settings, store, keys, issuer, profiles, brokerId, log, now, monotonic }
  const client = overrides.client ?? httpAgentClient(issuer)
  parts.defer(() => client.close())
  const silence = new AgentSilence(now, monotonic)
  const rotation = new KeyRotation({ ...base, client })
  const directory = new AgentDirectory(store.agents)
  const placement = new Placement({ directory, counts: store.counts, timeoutMs: settings.agentTimeout * 1000, silence })
  const liveBrokers = new LiveBrokers()
  const access = createAccess({ ...base, share: liveBrokers.share, isOwnKey: (kid) => keys.has(kid) })
  const { tokenTtl: tokenTtlSeconds, maxSessions, corsOrigins, trustedProxies } = settings
  const sessions = createSessions({ ...base, ...access, client, placement, tokenTtlSeconds, maxSessions })
  const { effects, provisioner, writer, service, members, threads } = sessions
  parts.defer(() => effects.close())
  // On a full disk it stays, and is forgotten at the next start on the directory, or by housekeeping.
  parts.defer(() => store.brokers.forget(brokerId).catch((thrown: unknown) => log.warn({ err: thrown }, 'the broker leaves its row')))
  parts.defer(() => provisioner.close(PROVISIONING_DRAIN_MS))
  const secretKeys = tenantSecretKeys(settings)
  const registration = createRegistration({ ...base, client, sessions, silence, directory, enrollToken })
  const reaper = createReaper({ ...base, client, sessions, inventory: registration.inventory, placement, silence, liveBrokers })
  const metrics = new Metrics(store)

  const agentTls = overrides.besideAgent && settings.tls !== undefined ? ownAgentTls(settings.tls.cert) : undefined
  const dataplane = createDataplaneClient({ ...base, agentTls })
  parts.defer(() => dataplane.close())
  const probe = new RelayProbe({ placement, issuer, log, monotonic, agentTls })
  parts.defer(() => probe.close())
  const authorizer = createSessionAuthorizer({ credentials, store, exposed: isExposed(settings) })
  const relay = createRelay({ authorizer, corsOrigins, metrics, log, agentTls, splice: uploadSpliceFrom(settings.relaySplice) })
  parts.defer(() => relay.close())

  const feed = new EventFeed(store.events)
  const urlOf = previewUrls({ brokerUrl: url, domain: settings.previewDomain })
  const listeningIn = async ({ id }: PlacedSession): Promise<number[]> =>
    (
      await dataplane
        .session(id, { actor: 'broker', capabilities: ['ports', 'exec'], allowedAt: Math.floor(now() / 1000) })
        .json({ method: 'GET', path: '/ports' }, ListPortsResponse)
    ).ports.map(({ port }) => port)
  const previews = new Previews({ ...base, client, sessions: service, urlOf, listeningIn })
  const egress = new SessionEgressService({ ...base, sessions: service, writer, effects, lists: settings.egressLists })
  const previewRoutes = new PreviewRoutes({ ...base, urlOf })
  const previewRelay = createPreviewRelay({ routes: previewRoutes, exposed: isExposed(settings), trustedProxies, metrics, agentTls, log })
  parts.defer(() => previewRelay.close())
  const surfaces = createSurfaces({
    ...base,
    ...access,
    stepsLog: overrides.stepsLog,
    after,
    eventTimes,
    feed,
    registration,
    secretKeys,
    rotation,
    url,
    localUrl: own.localUrl,
    internalUrl: internalUrlOf(settings, listener),
    client,
    placement,
    dataplane,
    credentials,
    metrics,
    effects,
    writer,
    members,
    threads,
    egress,
    previews,
    previewRoutes,
    sessions: service,
    readiness: () => readiness(store, placement, probe),
  })
  const app = createApp({ ...base, ...access, metrics, surfaces: surfaces.list, corsOrigins, trustedProxies })

  for (const each of all) {
    each.serve(app, withPreviews(previewRelay, withUpgrades(surfaces.list, relay)))
    parts.defer(() => each.close())
  }
  parts.defer(() => relay.closeSockets())
  parts.defer(() => previewRelay.closeSockets())
  for (const surface of surfaces.list) parts.defer(() => surface.close?.())
  const ports = await Promise.all(surfaces.list.map((surface) => surface.listen?.()))
  // Before the rest: streams that go on for ever would hold up the end of the requests in flight.
  parts.defer(() => feed.close())
  await replayReleases({ store, writer, now })
  reaper.start()
  parts.defer(() => reaper.stop())
  // The first of all when the broker ends.
  parts.defer(() => store.closing())
  await reaper.run()
  for (const surface of surfaces.list) surface.start?.()
  log.info({ url }, 'broker listens')
  const started: StartedBroker = {
    url,
    localUrl: listener.localUrl,
    port: listener.port,
    enrollToken,
    ...Object.assign({}, ...ports),
    ...(apiKeyCreated !== undefined && { apiKeyCreated }),
  }
  return { started, reaper, provisioner, effects, rotation, surfaces }
}
