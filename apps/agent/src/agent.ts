import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import { keyThumbprint } from '@boxoffice/node-http'
import type {
  AgentHeartbeatRequest,
  JournalEntry,
  Jwks,
  ProviderReport,
  RegisterAgentRequest,
  SandboxReport,
  SandboxUntold,
} from '@boxoffice/protocol'
import { getRequestListener } from '@hono/node-server'
import { type Logger, pino } from 'pino'
import { Registry } from 'prom-client'
import { createControlVerifier } from './auth/control-auth.ts'
import { createKeySource } from './auth/keys.ts'
import { createRevocationStore } from './auth/revocations.ts'
import { createTokenBinding } from './auth/token-binding.ts'
import { type BrokerClient, createBrokerClient } from './broker-link/broker-client.ts'
import { createBrokerClock, listenForTime } from './broker-link/broker-clock.ts'
import { createUplink } from './broker-link/heartbeat.ts'
import { openIdentity } from './broker-link/identity.ts'
import { createJournal } from './broker-link/journal.ts'
import { keepRevocations } from './broker-link/revocation-file.ts'
import { loadTrust, trustWriter } from './broker-link/trust.ts'
import { createCapacity } from './capacity/capacity.ts'
import { openMachine } from './capacity/machine.ts'
import type { Reserve } from './capacity/room.ts'
import { type AgentConfig, hostOf, isLocal, portOf } from './config/config.ts'
import { countEnds, countSandboxes, countTraffic } from './control/agent-metrics.ts'
import { createControlApp } from './control/control.ts'
import { operations } from './control/operations.ts'
import { openDataDirectory } from './data-dir/data-directory.ts'
import { createLayout } from './data-dir/layout.ts'
import { claimOwners, createUids } from './data-dir/uids.ts'
import { createDataplane } from './dataplane/app.ts'
import { createDiskFloor } from './host/disk-floor.ts'
import { createAccessJournal } from './http/access-journal.ts'
import { createDataplaneLimits } from './http/dataplane-limits.ts'
import { httpServer, listen, listenOnSocket, readTls } from './http/listeners.ts'
import { startDiskGuards } from './limits/guards.ts'
import { createMountPolicy } from './mounts/policy.ts'
import { providerCandidates } from './providers/candidates.ts'
import { createProviderSlot, type ProviderSlot } from './providers/slot.ts'
import { recoveringError } from './sandbox/end.ts'
import type { Candidate } from './sandbox/provider.ts'
import { createSandboxManager, type SandboxManager } from './sandboxes/manager.ts'
import { openRecovery, type Recovery } from './sandboxes/recovery.ts'
import { createWatch } from './sandboxes/watch.ts'

/** Parts that tests and `boxoffice up` bring along instead of the usual ones. */
export type AgentOverrides = {
  log?: Logger
  broker?: BrokerClient
  candidates?: readonly Candidate[]
  /** The PEM certificate by which the broker is known, where its name cannot be in one. */
  brokerCertificate?: string
  /** A part of the same process listens where others can reach it. */
  exposed?: boolean
  /** The broker is in this process: it relays to the listener itself, whatever clients reach it by. */
  besideBroker?: boolean
  /** For what alone its sandboxes are; undefined: for everything. */
  reserved?: ProviderReport['reserved']
  /** The broker was away at the start, and then did not take this agent: it is of no use, and its owner closes it. */
  onRefused?: (error: Error) => void
  /** This machine's clock, Unix milliseconds. */
  wall?: () => number
}

/** What a started agent says of itself; the ready line prints it. */
export type AgentReady = {
  url: string
  controlUrl: string
  /** Undefined while the broker cannot be reached; the agent goes on trying. */
  agentId: string | undefined
  provider: string | null
  isolation: string | null
  /** Why no sandbox can be made, else null. */
  reason: string | null
}

export interface Agent {
  start(): Promise<AgentReady>
  /** Sockets close with 1001; sandboxes stay, unless `destroyOnExit`. */
  close(): Promise<void>
}

const VERSION = '0.1.0'
/** Smaller changes of the clocks' difference are not worth a write. */
const OFFSET_CHANGE_MS = 1000

/** Builds the agent from its parts. Nothing runs before `start`. */
export const createAgent = (config: AgentConfig, overrides: AgentOverrides = {}): Agent => {
  const log = overrides.log ?? pino({ name: 'boxoffice-agent' }, pino.destination(2))
  const teardown = new AsyncDisposableStack()

  const build = async (): Promise<AgentReady> => {
    const directory = await openDataDirectory(config.dataDir, config.supervisorPath)
    teardown.defer(directory.release)
    const { installId } = directory
    const instanceId = randomBytes(6).toString('hex')
    const tls = await readTls(config.tlsCert, config.tlsKey)
    const metrics = new Registry()

    const slot = createProviderSlot(
      overrides.candidates ??
        providerCandidates({
          provider: config.provider,
          isolation: config.isolation,
          sameUser: config.sameUser,
          unsafeRefused: unsafeRefused(config, overrides.exposed ?? false),
          dockerHost: config.dockerHost,
          dataDirectory: directory.path,
          installId,
          instanceId,
          defaultImage: config.defaultImage,
          log,
        }),
      log,
    )
    teardown.defer(() => slot.close())

    const engineDirectory = () => slot.provider?.host.engineDirectory
    const disk = createDiskFloor({ dataDirectory: directory.path, engineDirectory })
    const layout = await createLayout(directory.path)
    teardown.defer(() => layout.close())
    const uids = createUids(installId, config.sameUser)
    await claimOwners(uids, join(directory.path, 'workspaces'))
    const wall = overrides.wall ?? Date.now
    let trust = await loadTrust(directory.path)
    const saveTrust = trustWriter(directory.path)
    const clock = createBrokerClock({ offsetMs: trust?.clock_offset_ms ?? 0, wall })
    const identity = await openIdentity(directory.path)
    const binding = createTokenBinding(keyThumbprint(identity.publicKey))
    const broker = listenForTime(
      overrides.broker ??
        createBrokerClient({
          brokerUrl: config.brokerUrl,
          enrollToken: config.enrollToken,
          identity,
          certificate: overrides.brokerCertificate,
        }),
      clock,
      async () => {
        if (trust === undefined || Math.abs(clock.offsetMs - trust.clock_offset_ms) < OFFSET_CHANGE_MS) return
        trust = { ...trust, clock_offset_ms: clock.offsetMs }
        await saveTrust(trust)
      },
    )
    const revocations = createRevocationStore(clock.now)
    teardown.defer(await keepRevocations(directory.path, revocations, log))
    const keys = createKeySource({ load: () => broker.jwks() })
    if (trust !== undefined) keys.seed(trust.jwks)
    const issuer = () => trust?.issuer
    let savedKeys = trust?.jwks
    /** Of the present report: its answer tells no keys that are older than what has been pushed since. */
    let keysAtReport = 0
    const onKeys = async (jwks: Jwks): Promise<void> => {
      keys.seed(jwks)
      // A restart must not bring a withdrawn key back, so what could not be saved is saved with the next report.
      if (trust === undefined || isDeepStrictEqual(savedKeys, jwks)) return
      trust = { ...trust, jwks }
      await saveTrust(trust).then(
        () => {
          savedKeys = jwks
        },
        (err: unknown) => log.warn({ err }, "the broker's keys could not be kept"),
      )
    }

    const journal = createJournal(metrics)
    const manager = createSandboxManager({
      provider: () => slot.require(),
      layout,
      uids,
      supervisorPath: directory.supervisorPath,
      defaultImage: config.defaultImage,
      capacity: createCapacity({ machine: openMachine(), disk, reserve: reserveOf(config) }),
      mountPolicy: await createMountPolicy({
        allowedRoots: config.allowedHostMountRoots,
        blocked: [directory.path, ...config.blockedHostPaths, ...socketOf(config.dockerHost ?? process.env.DOCKER_HOST)],
      }),
      defaultHostWorkspace: config.defaultHostWorkspace,
      poolConcurrency: config.poolConcurrency,
      journal: countEnds(metrics, journal),
      sessionEnd: revocations.deniedSession,
      log,
    })
    const recovery = await openRecovery({ manager, revocations, dataDirectory: directory.path, log })
    const reserved = overrides.reserved === undefined ? {} : { reserved: overrides.reserved }
    // An agent that does not know yet what it has takes nothing new, and what it does not report is not missing.
    const providerReport = (): ProviderReport => {
      const report = { ...slot.report(), ...reserved }
      return manager.recovery.isUnderWay ? { ...report, available: false, reason: report.reason ?? recoveringError().message } : report
    }
    const heartbeat = (partial: boolean, entries: JournalEntry[], ended: readonly SandboxReport[] = []): AgentHeartbeatRequest => {
      keysAtReport = keys.version
      // A wake is news of the session's state, too.
      const woken = new Set(entries.filter(({ type }) => type === 'wake').map(({ sandbox_id: id }) => id))
      const sandboxes = manager.inventory.reports(({ state, id }) => !partial || state === 'lost' || woken.has(id))
      return {
        ...{ instance_id: instanceId, provider: providerReport(), journal: entries },
        ...{ sandboxes: [...sandboxes, ...ended], partial: partial || manager.recovery.isUnderWay },
      }
    }
    // With TLS its address is not in the certificate; the broker beside it knows the certificate itself.
    const dataplaneUrl = (): string | undefined => config.dataplaneUrl ?? (overrides.besideBroker ? url : undefined)
    const inventory = (): RegisterAgentRequest => ({
      install_id: installId,
      instance_id: instanceId,
      public_url: config.publicUrl ?? url,
      control_url: config.controlUrl ?? controlUrl,
      ...(dataplaneUrl() === undefined ? {} : { dataplane_url: dataplaneUrl() }),
      relay: config.relay,
      provider: providerReport(),
      sandboxes: manager.inventory.reports(),
      partial: manager.recovery.isUnderWay,
      clock: new Date(wall()).toISOString(),
      version: VERSION,
    })
    const uplink = createUplink({
      broker,
      inventory,
      count: () => manager.inventory.count,
      heartbeat,
      journal,
      onRegistered: async ({ issuer: signer, jwks }) => {
        trust = { issuer: signer, jwks, clock_offset_ms: clock.offsetMs }
        savedKeys = undefined
        keys.seed(jwks)
        await saveTrust(trust)
      },
      onInstructions: async (instructions) => {
        binding.told(instructions.control_tokens_bound ?? false)
        revocations.apply(instructions.revocations)
        if (instructions.jwks !== undefined && keys.version === keysAtReport) await onKeys(instructions.jwks)
        manager.pool.setTargets(slot.provider === undefined || manager.recovery.isUnderWay ? [] : instructions.pools)
        await recovery.settle(instructions.decisions)
      },
      onRefused: overrides.onRefused ?? (() => {}),
      log,
    })
    // After the listeners have drained, and before the broker hears the last of this agent.
    teardown.defer(async () => {
      const ended = config.destroyOnExit ? await endSandboxes({ slot, manager, recovery, log }) : []
      await manager.close()
      await uplink.sayLast(ended)
    })
    countSandboxes(metrics, manager)

    const watch = createWatch({ slot, manager, recovery, onAdopted: () => uplink.reportNow(), log })
    teardown.defer(() => watch.close())
    await watch.start()

    const guards = startDiskGuards({ manager, dataDirectory: directory.path, engineDirectory, log })
    teardown.defer(() => guards.close())

    const dataplane = createDataplane({
      sandboxes: manager,
      keys,
      revocations,
      issuer,
      thumbprint: binding.thumbprint,
      now: clock.now,
      corsOrigins: config.corsOrigins,
      limits: createDataplaneLimits(config.dataplaneRates),
      access: createAccessJournal(journal, manager),
      disk,
      quotas: guards.quotas,
      log,
      metrics,
    })
    const unreadiness = (): string[] => [
      ...[disk.shortage() ?? []].flat().map((shortage) => `disk: ${shortage}`),
      ...(slot.reason === null ? [] : [`provider: ${slot.reason}`]),
      ...(slot.reason === null && manager.recovery.isUnderWay ? [`sandboxes: ${recoveringError().message}`] : []),
      ...(uplink.agentId === undefined ? ['broker: not registered yet'] : []),
    ]
    const other = operations({ unreadiness, metrics })
    const socketPath = config.dataplaneListen?.slice('unix:'.length)
    const { server, drain } = httpServer(
      socketPath === undefined ? tls : undefined,
      (request, response) => {
        if (!dataplane.handle(request, response)) other(request, response)
      },
      config,
    )
    server.on('upgrade', (request, socket, head) => dataplane.upgrade(request, socket, head))
    countTraffic(metrics, server)
    // Uploads may take as long as they move; the dataplane gives up one that stalls by itself.
    server.requestTimeout = 0
    const url = socketPath === undefined ? await listen(server, config.host, config.port, tls) : await listenOnSocket(server, socketPath)
    teardown.defer(async () => {
      await dataplane.close()
      await drain()
    })

    const untold = (sandboxId: string): SandboxUntold | undefined => {
      const seq = journal.lastOf(sandboxId)
      return seq === undefined ? undefined : { instance_id: instanceId, journal_seq: seq }
    }
    const verify = createControlVerifier({ keys, issuer, agentId: () => uplink.agentId, binding, now: clock.now })
    // A loopback listener needs no TLS [C-79], and no certificate is for it.
    const controlTls = isLoopback(hostOf(config.controlListen)) ? undefined : tls
    const { server: control, drain: drainControl } = httpServer(
      controlTls,
      getRequestListener(
        createControlApp({
          manager,
          revocations,
          onKeys,
          untold,
          instance: { install_id: installId, instance_id: instanceId },
          verify,
          log,
        }).fetch,
      ),
      config,
    )
    const controlUrl = await listen(control, hostOf(config.controlListen), portOf(config.controlListen), controlTls)
    teardown.defer(drainControl)

    teardown.defer(() => uplink.stop())
    manager.inventory.onLost(() => uplink.reportNow())
    await uplink.start()

    const { name: provider, isolation, reason } = slot.report()
    return { url, controlUrl, agentId: uplink.agentId, provider, isolation, reason }
  }

  return {
    async start() {
      try {
        return await build()
      } catch (error) {
        await teardown.disposeAsync()
        throw error
      }
    },
    close: () => teardown.disposeAsync(),
  }
}

type Ending = { slot: ProviderSlot; manager: SandboxManager; recovery: Recovery; log: Logger }

/** Leaves nothing of this install running [2-27]; those of which no record says anything included. */
const endSandboxes = async ({ slot, manager, recovery, log }: Ending): Promise<SandboxReport[]> => {
  if (slot.provider !== undefined && manager.recovery.isUnderWay) await recovery.adopt(slot.provider)
  const ended = await manager.close({ destroyAll: true })
  await recovery.settle([])
  log.info({ sandboxes: ended.length }, 'the sandboxes have ended with the agent (--destroy-on-exit)')
  return ended
}

const reserveOf = ({ reserve: { memoryMb, ...counts } }: AgentConfig): Reserve => ({
  ...counts,
  memory: memoryMb === undefined ? undefined : memoryMb * 1024 ** 2,
})

const socketOf = (dockerHost: string | undefined): string[] =>
  dockerHost?.startsWith('unix://') ? [dockerHost.slice('unix://'.length)] : []

const unsafeRefused = ({ host, controlListen, publicUrl, allowUnsafeLocal }: AgentConfig, exposed: boolean): string | null => {
  const local = isLocal(host, publicUrl) && isLoopback(hostOf(controlListen)) && !exposed
  if (allowUnsafeLocal || local) return null
  return 'isolation "none" is refused for a listener that others can reach; install bubblewrap, or allow it with --allow-unsafe-local'
}
