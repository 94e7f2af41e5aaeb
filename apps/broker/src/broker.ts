import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import { localUrl } from '@boxoffice/kit/listen-address'
import { PrincipalLimit, RateLimit, SHIPPED_SUPERVISORS } from '@boxoffice/node-http'
import { fromUnknown } from '@boxoffice/protocol'
import { authorizerOf } from './access/authorizers.ts'
import { KeyService } from './access/key-service.ts'
import { OidcVerifier } from './access/oidc.ts'
import { hashKey, newApiKey, newKeyId, Principals, ROOT_TENANT } from './access/principals.ts'
import { RemoteKeys } from './access/remote-keys.ts'
import { type AgentClient, httpAgentClient } from './agents/agent-client.ts'
import { dataplaneAt } from './agents/dataplane-mode.ts'
import { KeyRotation } from './agents/key-rotation.ts'
import { Placement } from './agents/placement.ts'
import { AgentSilence } from './agents/silence.ts'
import { type BrokerConfig, isExposed, profilesOf, type ResolvedBrokerConfig, resolveConfig, targetPolicy } from './config/config.ts'
import { createDataplaneClient } from './dataplane/client.ts'
import { isLive } from './domain/session.ts'
import { EventFeed } from './events/event-feed.ts'
import { enrollTokenOf, openDataDir, readSecret, writeSecret } from './host/data-dir.ts'
import { lockDataDir } from './host/lock.ts'
import { createLog, type Log } from './host/log.ts'
import { StartError } from './host/start-error.ts'
import { clientAddress } from './http/address.ts'
import { createApp } from './http/app.ts'
import { Metrics } from './http/metrics.ts'
import { listen, ownAgentTls } from './http/server.ts'
import { type OutboundCall, outboundCall } from './outbound/call.ts'
import { Enrollment } from './registration/enrollment.ts'
import { InstallPresence } from './registration/install-presence.ts'
import { Inventory } from './registration/inventory.ts'
import { JournalIntake } from './registration/journal-intake.ts'
import { LostAgents } from './registration/lost-agents.ts'
import { AgentProofs } from './registration/proof.ts'
import { AgentRegistry } from './registration/registry.ts'
import { createAdmission } from './relay/admission.ts'
import { type RelayHealth, RelayProbe } from './relay/probe.ts'
import { createRelay } from './relay/relay.ts'
import { SessionEffects } from './sessions/effects.ts'
import { Grants } from './sessions/grants.ts'
import { Members } from './sessions/members.ts'
import { Negotiator } from './sessions/negotiate.ts'
import { Provisioner } from './sessions/provisioner.ts'
import { SessionService } from './sessions/service.ts'
import { SessionMaker } from './sessions/session-maker.ts'
import { SessionWriter } from './sessions/session-writer.ts'
import { TenantUsage } from './sessions/tenant-usage.ts'
import { Threads } from './sessions/threads.ts'
import { openSqliteStore } from './store/sqlite/sqlite-store.ts'
import type { Store } from './store/store.ts'
import { createBox } from './surfaces/box/box.ts'
import type { RpcResponse } from './surfaces/box/rpc.ts'
import { createMcp } from './surfaces/mcp/mcp.ts'
import { createStepsApp } from './surfaces/sbs/app.ts'
import { knownCallers } from './surfaces/sbs/callers.ts'
import { listenForSteps, type StepsListener } from './surfaces/sbs/listener.ts'
import { Steps } from './surfaces/sbs/steps.ts'
import { agentRoutes } from './surfaces/v1/agents.ts'
import { auditRoutes } from './surfaces/v1/audit.ts'
import { enrollTokenRoutes } from './surfaces/v1/enroll-tokens.ts'
import { eventRoutes } from './surfaces/v1/events.ts'
import { keyRoutes } from './surfaces/v1/keys.ts'
import { memberRoutes } from './surfaces/v1/members.ts'
import { documentationRoutes } from './surfaces/v1/openapi.ts'
import { operationRoutes } from './surfaces/v1/operations.ts'
import { profileRoutes } from './surfaces/v1/profiles.ts'
import { scopeRoutes } from './surfaces/v1/scopes.ts'
import { sessionRoutes } from './surfaces/v1/sessions.ts'
import { signingKeyRoutes } from './surfaces/v1/signing-keys.ts'
import { threadRoutes } from './surfaces/v1/threads.ts'
import { usageRoutes } from './surfaces/v1/usage.ts'
import { Credentials } from './tokens/credentials.ts'
import { TokenIssuer } from './tokens/issuer.ts'
import { SigningKeys } from './tokens/keys.ts'
import { sessionTokenVerifier } from './tokens/verifier.ts'
import { IdleCheck } from './upkeep/idle-check.ts'
import { Reaper } from './upkeep/reaper.ts'
import { replayReleases, replayRevocations } from './upkeep/replay-held.ts'
import { resumeEndings } from './upkeep/resume-endings.ts'

/** Of event streams: a comment this often, a reader that takes nothing is dropped after, other brokers' writes are looked for. */
const EVENT_TIMES = { pingMs: 15_000, stallMs: 30_000, pollMs: 200 }

/** What tests put in the place of the real thing. */
export type BrokerOverrides = {
  now?: () => number
  /** Milliseconds that never jump; ages and caches go by them. */
  monotonic?: () => number
  client?: AgentClient
  log?: Log
  stepsLog?: Log
  eventTimes?: Partial<typeof EVENT_TIMES>
  /** The agent of `boxoffice up` is in this process, and shows the same certificate. */
  besideAgent?: boolean
}

export type StartOptions = {
  /** When the agent that this program starts beside the broker works, or is known not to: MCP servers wait for it. */
  agentStarted?: Promise<void>
}

/**
 * `localUrl` is where it listens, whatever its public URL is. `enrollToken` is what agents register with: the configured one, or
 * the one of the data directory.
 */
export type StartedBroker = {
  url: string
  localUrl: string
  port: number
  enrollToken: string
  apiKeyCreated?: string
  /** Of the Box surface's own listeners. */
  boxPort?: number
  boxRpcPort?: number
}

export interface Broker {
  /** Opens the data directory, listens, starts the reaper. Throws `StartError` with what to do; nothing is left open then. */
  start(options?: StartOptions): Promise<StartedBroker>
  /** Stops taking work, gives requests in flight 10 s, closes everything. Sandboxes stay. */
  close(): Promise<void>
  /** One round of the reaper, now. */
  reap(): Promise<void>
  /** Resolves when no call to an agent is in flight for sessions that have changed. */
  settled(): Promise<void>
  /** The surface of seed 003 on a listener of its own, for everybody who reaches it. Its end ends its sessions. */
  serveSteps(options: { host: string; port: number }): Promise<StepsListener>
  /** Adds the next signing key [C-49]; `immediately`, for one that has leaked, withdraws the present ones. */
  rotateKeys(immediately?: boolean): Promise<void>
  /** Answers one RPC message of the Box surface for the program that started this one [2-45]. */
  boxRpc(message: string): Promise<RpcResponse>
}

const PROVISIONING_DRAIN_MS = 10_000

/** Builds a broker by hand, every part once. Throws `StartError` for settings that cannot work. */
export function createBroker(config: BrokerConfig, overrides: BrokerOverrides = {}): Broker {
  const settings = resolveConfig(config)
  const parts = new AsyncDisposableStack()
  let running: Awaited<ReturnType<typeof run>> | undefined
  const started = () => running ?? fail('the broker is not started')
  return {
    async start(options = {}) {
      try {
        running = await run(settings, overrides, options, parts)
        return running.started
      } catch (thrown) {
        await parts.disposeAsync()
        throw thrown
      }
    },
    close: () => parts.disposeAsync(),
    reap: () => started().reaper.run(),
    settled: () => started().effects.settled(),
    serveSteps: (options) => started().serveSteps(options),
    async rotateKeys(immediately = false) {
      const { rotation } = started()
      await (immediately ? rotation.replace() : rotation.plan())
    },
    boxRpc: (message) => started().box?.rpc(message) ?? fail('the Box surface is off'),
  }
}

async function run(
  settings: ResolvedBrokerConfig,
  overrides: BrokerOverrides,
  { agentStarted }: StartOptions,
  parts: AsyncDisposableStack,
) {
  const { now = Date.now, monotonic = () => performance.now() } = overrides
  const log = overrides.log ?? createLog(settings.logLevel)
  const brokerId = randomUUID()
  const profiles = profilesOf(settings)
  const rates = settings.rateLimits
  openDataDir(settings.dataDir)
  parts.use(lockDataDir(settings.dataDir, settings.sharedDataDir))
  const store = parts.use(await openSqliteStore(join(settings.dataDir, 'broker.db')))
  const apiKeyCreated = await operatorKey(settings, store, now())
  const enrollToken = settings.enrollToken ?? enrollTokenOf(settings.dataDir)

  const keys = await SigningKeys.open(settings.dataDir, now)
  const issuer = new TokenIssuer(keys, settings.tokenTtl, now, monotonic)
  const client = overrides.client ?? httpAgentClient(issuer)
  parts.defer(() => client.close())
  const silence = new AgentSilence(now, monotonic)
  const rotation = new KeyRotation({ keys, issuer, store, client, log, now })
  const placement = new Placement(store, settings.agentTimeout * 1000, silence)
  const effects = new SessionEffects({ store, client, log, tokenTtlSeconds: settings.tokenTtl })
  parts.defer(() => effects.close())
  const writer = new SessionWriter(store, effects, now)
  effects.onCannotSuspend = (session) => writer.change(session, { type: 'suspend_refused' })
  const provisioner = new Provisioner({ store, writer, effects, placement, client, log, now, brokerId })
  // On a full disk it stays, and is forgotten at the next start, or when it has been silent for long enough.
  parts.defer(() => store.brokers.forget(brokerId).catch((thrown: unknown) => log.warn({ err: thrown }, 'the broker leaves its row')))
  parts.defer(() => provisioner.close(PROVISIONING_DRAIN_MS))

  const outbound = outboundCall(targetPolicy(settings), settings.authorizerTimeoutMs)
  const authorizer = authorizerOf(settings, outbound, now, monotonic)
  const grants = new Grants({ store, effects, profiles, tokenTtlSeconds: settings.tokenTtl, now })
  const maker = new SessionMaker({
    ...{ store, effects, grants, provisioner, placement, brokerId, now },
    maxSessions: settings.maxSessions,
    limit: new PrincipalLimit('create', { principal: rates.createPerPrincipal, tenant: rates.createPerTenant }, monotonic),
  })
  const members = new Members({ store, writer, authorizer, withdraw: (session, principal) => grants.withdraw(session, principal), now })
  const cancel = (sessionId: string): void => provisioner.cancel(sessionId)
  const threads = new Threads({ store, writer, authorizer, cancel, now })
  const negotiator = new Negotiator({
    ...{ store, writer, maker, provisioner, placement, authorizer, grants, members, issuer, profiles, now },
  })
  const sessions = new SessionService({ store, writer, negotiator, authorizer, grants, cancel, issuer, now })
  const principals = new Principals(store.keys, settings.apiKey, oidcOf(settings, outbound, keys, { now, monotonic }))
  const metrics = new Metrics(store)
  const inventory = new Inventory({ store, writer, effects, log, now })
  const enrollment = new Enrollment(enrollToken, store.enrollTokens, now)
  const proofs = new AgentProofs({ challenges: store.challenges, issuer: () => issuer.issuer, now })
  const presence = new InstallPresence({ client, silence, silentAfterMs: settings.agentTimeout * 1000 })
  const registry = new AgentRegistry({
    ...{ store, keys, issuer, enrollment, profiles, silence, proofs, presence, log, now, exposed: isExposed(settings) },
    inventory,
    journal: new JournalIntake({ store, now }),
    tokenTtlSeconds: settings.tokenTtl,
    heartbeatSeconds: settings.agentHeartbeat,
  })
  const reaper = new Reaper({
    ...{ store, writer, provisioner, keys, brokerId, log, now, monotonic },
    lostAgents: new LostAgents({ store, inventory, lostAfterMs: settings.agentLostAfter * 1000, silence }),
    idleCheck: new IdleCheck({ client, inventory, placement, log, now }),
    keyRotationMs: settings.keyRotation * 1000,
    intervalMs: settings.reaperIntervalMs,
    brokerTimeoutMs: settings.brokerTimeout * 1000,
  })

  const eventTimes = { ...EVENT_TIMES, ...overrides.eventTimes }
  const feed = new EventFeed(store.events, eventTimes.pollMs)

  const agentTls = overrides.besideAgent && settings.tls !== undefined ? ownAgentTls(settings.tls.cert) : undefined
  const dataplane = createDataplaneClient({ store, issuer, now, monotonic, agentTls })
  parts.defer(() => dataplane.close())
  const verify = sessionTokenVerifier({ keys, issuer: () => issuer.issuer, now })
  const credentials = new Credentials({ verify, keys, issuer, now })

  const probe = new RelayProbe({ placement, issuer, log, monotonic, agentTls })
  parts.defer(() => probe.close())

  let url = ''
  const mcp = createMcp({ settings, sessions, dataplane, placement, client, store, credentials, url: () => url, log, after: agentStarted })
  const routes = [
    ...sessionRoutes(
      sessions,
      settings.features,
      dataplaneAt(() => url),
    ),
    ...eventRoutes({ sessions, store: store.events, endings: store.endings, feed, ...eventTimes }),
    ...memberRoutes(members),
    ...threadRoutes(threads),
    ...keyRoutes(new KeyService(store.keys, principals, now)),
    ...signingKeyRoutes(rotation),
    ...profileRoutes(profiles),
    ...scopeRoutes(),
    ...usageRoutes({ store, usage: new TenantUsage({ store, client }), settings, profiles }),
    ...auditRoutes(store.audit),
    ...mcp.routes,
    ...agentRoutes({ registry, enrollment, isHeard: (agent) => placement.isHeard(agent) }),
    ...enrollTokenRoutes(enrollment),
    ...operationRoutes({ keys, metrics, readiness: () => readiness(store, placement, probe) }),
  ]
  routes.push(...documentationRoutes(routes, () => url))
  const stepsWith = (profile: string | null): Steps =>
    new Steps({
      ...{ sessions, dataplane, profile, log: overrides.stepsLog ?? log },
      timeoutSeconds: settings.stepTimeout,
      isOver: async (id) => !isLive((await store.sessions.byId(id)) ?? fail(`session ${id} is not in the store`)),
      ended: (id) => effects.ended(id),
    })
  const authFailures = new RateLimit(rates.authFailures, monotonic)
  const controlLimit = new PrincipalLimit('control', { principal: rates.controlPerPrincipal, tenant: rates.controlPerTenant }, monotonic)
  const callerOf = knownCallers({ principals, authFailures, controlLimit, addressOf: clientAddress(settings.trustedProxies) })
  const base = '/compat/sbs'
  const box = settings.compat.box
    ? createBox({
        settings,
        store,
        profiles,
        sessions,
        dataplane,
        placement,
        client,
        principals,
        authFailures,
        controlLimit,
        metrics,
        log,
        now,
      })
    : undefined
  const mounts = [
    mcp.mount,
    ...(settings.compat.sbs ? [{ path: base, app: createStepsApp({ steps: stepsWith(null), callerOf, base, log }) }] : []),
    ...(box?.mounts ?? []),
  ]
  const app = createApp({
    ...{ routes, mounts, principals, store, metrics, log, now, monotonic, authFailures, controlLimit },
    corsOrigins: settings.corsOrigins,
    trustedProxies: settings.trustedProxies,
  })

  // Nobody else runs on this directory, so whatever other brokers were doing is left over.
  if (!settings.sharedDataDir) await store.brokers.forget(null)
  const relay = createRelay({
    admission: createAdmission({ credentials, store, exposed: isExposed(settings) }),
    ...{ corsOrigins: settings.corsOrigins, metrics, log, agentTls, pass: moverOf(settings.relayMover) },
  })
  parts.defer(() => relay.close())
  await replayRevocations(store)
  const server = await listen(app, box?.upgrading(relay) ?? relay, settings)
  parts.defer(() => server.close())
  const boxPorts = await box?.listen(parts)
  parts.defer(() => relay.closeSockets())
  parts.defer(() => box?.closeSockets())
  // First of all: streams that go on for ever would hold up the end of the requests in flight.
  parts.defer(() => feed.close())
  // Other machines need `publicUrl`.
  const listensAt = localUrl({ host: settings.host, port: server.port }, settings.tls !== undefined)
  url = settings.publicUrl ?? listensAt
  issuer.issuer = await store.brokers.issuer(url, !settings.sharedDataDir || settings.publicUrl !== undefined)
  if (url.startsWith('http:') && !isLoopback(new URL(url).hostname))
    log.warn({ public_url: url }, 'the public URL is not https: credentials cross the network in the clear unless a TLS proxy is in front')
  await replayReleases({ store, writer, now })
  await resumeEndings({ store, effects, log, now })
  reaper.start()
  parts.defer(() => reaper.stop())
  await reaper.run()
  mcp.start()
  parts.defer(() => mcp.close())
  log.info({ url }, 'broker listens')
  const started: StartedBroker = {
    url,
    localUrl: listensAt,
    port: server.port,
    enrollToken,
    ...boxPorts,
    ...(apiKeyCreated === undefined ? {} : { apiKeyCreated }),
  }
  const serveSteps = (options: { host: string; port: number }) =>
    listenForSteps({ ...options, maxConnections: settings.maxConnections, steps: stepsWith('sbs'), log })
  return { started, reaper, effects, rotation, serveSteps, box }
}

/**
 * Makes sure that somebody can use the broker. With `createApiKey` the key of the first start is kept in the data directory
 * (`api-key`, mode 0600; the database has its hash only), so that later starts can show the same one.
 */
async function operatorKey(settings: ResolvedBrokerConfig, store: Store, now: number): Promise<string | undefined> {
  const loopback = isLoopback(settings.host)
  if (settings.apiKey !== undefined) return undefined
  if (!settings.createApiKey || !loopback) {
    if (!loopback && (await store.keys.countValid()) === 0)
      throw new StartError(`a listener on ${settings.host} needs an API key: set --api-key (generate one with: openssl rand -base64 33)`)
    return undefined
  }
  const kept = readSecret(settings.dataDir, 'api-key')
  if (kept !== undefined && (await store.keys.byHash(hashKey(kept)))?.revokedAt === null) return kept
  const key = newApiKey()
  const record = { id: newKeyId(), hash: hashKey(key), name: 'boxoffice up', tenant: ROOT_TENANT, principal: 'operator', createdAt: now }
  writeSecret(settings.dataDir, 'api-key', key)
  await store.keys.insert(
    { ...record, actorType: 'human', role: 'operator', rights: ['act_as', 'release', 'box'], capabilities: null, revokedAt: null },
    [],
  )
  return key
}

/** Undefined when the configuration names no identity provider. */
function oidcOf(
  settings: ResolvedBrokerConfig,
  call: OutboundCall,
  own: SigningKeys,
  { now, monotonic }: Required<Pick<BrokerOverrides, 'now' | 'monotonic'>>,
): OidcVerifier | undefined {
  const { oidcIssuer: issuer, oidcJwksUrl, oidcAudience: audience, oidcAlgorithms: algorithms, oidcTenant: tenant } = settings
  if (issuer === undefined || oidcJwksUrl === undefined || audience === undefined) return undefined
  const keys = new RemoteKeys(oidcJwksUrl, call, monotonic)
  return new OidcVerifier({
    ...{ issuer, audience, algorithms, tenant, keys, now },
    claims: settings.oidcClaims,
    isOwnKey: (kid) => own.has(kid),
  })
}

/** Where there is none, large uploads pass through the broker as others do. */
function moverOf(configured: string | false | undefined): { path: string } | undefined {
  const candidates = configured === undefined ? SHIPPED_SUPERVISORS : configured === false ? [] : [configured]
  const path = candidates.find((candidate) => existsSync(candidate))
  return path === undefined ? undefined : { path }
}

async function readiness(store: Store, placement: Placement, probe: RelayProbe): Promise<RelayHealth> {
  const reasons: string[] = []
  await store
    .ping()
    .catch((thrown: unknown) =>
      reasons.push(fromUnknown(thrown).details?.reason === 'disk_full' ? 'disk_full' : 'the database does not answer'),
    )
  await placement.choose().catch((thrown: unknown) => reasons.push((thrown as Error).message))
  if (reasons.length > 0) return { reasons, warnings: [] }
  return probe.health()
}

const fail = (message: string): never => {
  throw new Error(message)
}
