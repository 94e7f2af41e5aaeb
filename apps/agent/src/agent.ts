import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setFastIo } from '@boxoffice/node-http'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openBrokerTrust } from './broker-link/broker-trust.ts'
import { createJournal } from './broker-link/journal.ts'
import type { AgentConfig } from './config/config.ts'
import {
  agentProxyFrom,
  authoritiesFrom,
  candidatesFrom,
  capacityFrom,
  installIdFrom,
  mirrorsFrom,
  mountPolicyFrom,
} from './config/from-config.ts'
import type { AgentOverrides } from './config/overrides.ts'
import { countEgress, countEnds, countSandboxes } from './control/agent-metrics.ts'
import { connectBroker, providerReportOf } from './control/connect-broker.ts'
import { unreadinessOf } from './control/readiness.ts'
import { serveControl } from './control/serve-control.ts'
import { openDataDirectory } from './data-dir/data-directory.ts'
import { createLayout } from './data-dir/layout.ts'
import { claimOwners, createUids } from './data-dir/uids.ts'
import { serveDataplane } from './dataplane/serve-dataplane.ts'
import { createDiskFloor } from './host/disk-floor.ts'
import { readTls } from './http/listeners.ts'
import { startDiskGuards } from './limits/guards.ts'
import { createExposedPorts } from './preview/exposed-ports.ts'
import { previewBroker } from './preview/preview-broker.ts'
import { createProviderSelector } from './providers/provider-selector.ts'
import { destroyOnExit } from './sandboxes/destroy-on-exit.ts'
import { createSandboxManager } from './sandboxes/manager.ts'
import { openRecovery } from './sandboxes/recovery.ts'
import { createWatch } from './sandboxes/watch.ts'

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

/** Builds the agent from its parts. Nothing runs before `start`. */
export const createAgent = (config: AgentConfig, overrides: AgentOverrides = {}): Agent => {
  // What is deferred here runs in reverse: first no more work comes in, last the data directory is given back.
  const teardown = new AsyncDisposableStack()
  return {
    async start() {
      try {
        return await build(config, overrides, teardown)
      } catch (error) {
        await teardown.disposeAsync()
        throw error
      }
    },
    close: () => teardown.disposeAsync(),
  }
}

const build = async (config: AgentConfig, overrides: AgentOverrides, teardown: AsyncDisposableStack): Promise<AgentReady> => {
  const log = overrides.log ?? pino({ name: 'boxoffice-agent' }, pino.destination(2))
  setFastIo(config.fastIo)
  const directory = await openDataDirectory(config.dataDir, config.supervisorPath)
  teardown.defer(directory.release)
  const { path: dataDirectory } = directory
  const installId = installIdFrom(config) ?? directory.installId
  const instanceId = randomBytes(6).toString('hex')
  const instance = { install_id: installId, instance_id: instanceId }
  const tls = await readTls(config.tlsCert, config.tlsKey)
  const metrics = new Registry()

  const where = { dataDirectory, installId, instanceId, log }
  const selector = createProviderSelector(overrides.candidates ?? candidatesFrom(config, overrides.exposed ?? false, where), log)
  teardown.defer(() => selector.close())
  const engineDirectory = () => selector.provider?.host.engineDirectory
  const disk = createDiskFloor({ dataDirectory, engineDirectory })
  const layout = await createLayout(dataDirectory)
  teardown.defer(() => layout.close())
  const uids = createUids(directory.uidBlock, config.sameUser)
  await claimOwners(uids, join(dataDirectory, 'workspaces'))

  const { broker: client, brokerCertificate: certificate, wall = Date.now } = overrides
  const trust = await openBrokerTrust({ config, dataDirectory, client, certificate, wall, log })
  teardown.defer(trust.close)
  const journal = createJournal(metrics)
  const capacity = capacityFrom(config, disk, () => manager.inventory.count)
  const manager = createSandboxManager({
    provider: () => selector.require(),
    layout,
    uids,
    supervisorPath: directory.supervisorPath,
    defaultImage: config.defaultImage,
    capacity,
    mountPolicy: await mountPolicyFrom(config, dataDirectory),
    defaultHostWorkspace: config.defaultHostWorkspace,
    poolConcurrency: config.poolConcurrency,
    egress: {
      ...{ secretsOf: (sessionId, names) => brokerLink.secretsOf(sessionId, names), onDecision: countEgress(metrics) },
      mirrors: mirrorsFrom(config, log),
      authorities: authoritiesFrom(config, log),
      upstream: agentProxyFrom(config, log),
      ...overrides.egress,
    },
    journal: countEnds(metrics, journal),
    sessionEnd: trust.revocations.deniedSession,
    log,
  })
  countSandboxes(metrics, manager)
  const recovery = await openRecovery({ manager, revocations: trust.revocations, dataDirectory, log })
  const sandboxes = { selector, manager, recovery, log }

  // Filled in below: the broker is told where the agent listens when it does.
  const listening = { url: '', controlUrl: '' }
  const { besideBroker = false, reserved, onRefused = () => {} } = overrides
  const brokerLink = connectBroker({
    ...sandboxes,
    config,
    instance,
    listening: () => listening,
    besideBroker,
    capacity,
    reserved,
    trust,
    journal,
    onRefused,
    wall,
  })
  // After the listeners have drained, and before the broker hears the last of this agent.
  teardown.defer(async () => {
    const ended = config.destroyOnExit ? await destroyOnExit(sandboxes) : await manager.close()
    await brokerLink.sayLast(ended)
  })

  const watch = createWatch({ ...sandboxes, onAdopted: () => brokerLink.reportNow() })
  teardown.defer(() => watch.close())
  await watch.start()
  const guards = startDiskGuards({ manager, dataDirectory, engineDirectory, log })
  teardown.defer(() => guards.close())

  const unreadiness = () => unreadinessOf({ disk, selector, manager, isRegistered: () => brokerLink.agentId !== undefined })
  const { quotas } = guards
  const { ask, exchange } = previewBroker(trust.broker, () => brokerLink.credential)
  const exposed = createExposedPorts({ ask })
  const dataplane = await serveDataplane({
    ...{ config, tls, sandboxes: manager, trust, journal, disk, quotas, unreadiness, log, metrics },
    previews: { exposed, exchange },
  })
  listening.url = dataplane.url
  teardown.defer(dataplane.close)
  const control = await serveControl({ config, tls, manager, exposed, trust, agentId: () => brokerLink.agentId, journal, instance, log })
  listening.controlUrl = control.url
  teardown.defer(control.drain)

  teardown.defer(() => brokerLink.stop())
  manager.inventory.onLost(() => brokerLink.reportNow())
  await brokerLink.start()
  const { name: provider, isolation, reason } = providerReportOf(selector, manager)
  return { ...listening, agentId: brokerLink.agentId, provider, isolation, reason }
}
