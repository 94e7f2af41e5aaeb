import { VERSION } from '@boxoffice/kit/version'
import type { AgentCapacity, AgentInstance, JournalEntry, ProviderReport, SandboxReport } from '@boxoffice/protocol'
import { type BrokerLink, type BrokerLinkOptions, createBrokerLink, type Extent } from '../broker-link/broker-link.ts'
import type { BrokerTrust } from '../broker-link/broker-trust.ts'
import { ReportedSandboxes } from '../broker-link/reported-sandboxes.ts'
import type { Capacity } from '../capacity/capacity.ts'
import type { AgentConfig } from '../config/config.ts'
import type { ProviderSelector } from '../providers/provider-selector.ts'
import { recoveringError } from '../sandbox/end.ts'
import type { SandboxManager } from '../sandboxes/manager.ts'
import type { Recovery } from '../sandboxes/recovery.ts'

/** What the agent tells the broker of itself, and how it follows the responses. */
type BrokerExchange = Pick<BrokerLinkOptions, 'inventory' | 'count' | 'heartbeat' | 'onAnswered' | 'onRegistered' | 'onInstructions'>

export type ConnectBrokerOptions = Pick<BrokerLinkOptions, 'journal' | 'onRefused' | 'log'> & {
  config: Pick<AgentConfig, 'publicUrl' | 'controlUrl' | 'dataplaneUrl' | 'relay' | 'previewDomain'>
  instance: AgentInstance
  /** Where the agent listens; asked for when it registers. */
  listening: () => { url: string; controlUrl: string }
  /** The broker is in this process: it relays to the listener itself, whatever clients reach it by. */
  besideBroker: boolean
  /** For what alone the agent's sandboxes are; undefined: for everything. */
  reserved: ProviderReport['reserved']
  selector: ProviderSelector
  manager: SandboxManager
  capacity: Pick<Capacity, 'room' | 'total'>
  recovery: Recovery
  trust: BrokerTrust
  /** This machine's clock, Unix milliseconds. */
  wall: () => number
}

/** The link to the broker, by which this agent tells of itself and follows what it is asked for. `start` opens it. */
export const connectBroker = (options: ConnectBrokerOptions): BrokerLink => {
  const { trust, journal, onRefused, log } = options
  return createBrokerLink({ ...exchangeOf(options), broker: trust.broker, journal, onRefused, log })
}

/** An agent that does not know yet what it has takes nothing new, and what it does not report is not missing. */
export const providerReportOf = (selector: ProviderSelector, manager: SandboxManager): ProviderReport => {
  const report = selector.report()
  return manager.recovery.isUnderWay ? { ...report, available: false, reason: report.reason ?? recoveringError().message } : report
}

const exchangeOf = (options: ConnectBrokerOptions): BrokerExchange => {
  const { config, instance, selector, manager, recovery, trust } = options
  const reserved = options.reserved === undefined ? {} : { reserved: options.reserved }
  const reported = new ReportedSandboxes()
  /** Of the present report: its response tells no keys that are older than what has been pushed since. */
  let keysAtReport = 0

  const providerReport = (): ProviderReport => ({ ...providerReportOf(selector, manager), ...reserved })

  const capacityReport = (): AgentCapacity => {
    const { total } = options.capacity
    const { count: room, limit } = options.capacity.room()
    const { sessions, memoryBytes, processors } = manager.inventory.demand()
    return {
      ...{ sessions, room, limit },
      memory: { have: total.memory, asked: memoryBytes },
      processors: { have: total.processors, asked: processors },
    }
  }

  const sandboxesOf = (extent: Extent, entries: readonly JournalEntry[]): SandboxReport[] => {
    const { inventory } = manager
    if (extent === 'all') return inventory.reports()
    if (extent === 'changed') return reported.changed(inventory.reports())
    // A wake is news of the session's state, too.
    const woken = new Set(entries.filter(({ type }) => type === 'wake').map(({ sandbox_id: id }) => id))
    return inventory.reports(({ state, id }) => state === 'lost' || woken.has(id))
  }

  return {
    inventory() {
      const { url, controlUrl } = options.listening()
      // With TLS its address is not in the certificate; the broker beside it knows the certificate itself.
      const dataplaneUrl = config.dataplaneUrl ?? (options.besideBroker ? url : undefined)
      return {
        install_id: instance.install_id,
        instance_id: instance.instance_id,
        public_url: config.publicUrl ?? url,
        control_url: config.controlUrl ?? controlUrl,
        ...(dataplaneUrl === undefined ? {} : { dataplane_url: dataplaneUrl }),
        ...(config.previewDomain === undefined ? {} : { preview_domain: config.previewDomain }),
        relay: config.relay,
        provider: providerReport(),
        capacity: capacityReport(),
        sandboxes: manager.inventory.reports(),
        partial: manager.recovery.isUnderWay,
        clock: new Date(options.wall()).toISOString(),
        version: VERSION,
      }
    },
    count: () => manager.inventory.count,
    heartbeat(extent, entries, ended = []) {
      keysAtReport = trust.keys.version
      return {
        instance_id: instance.instance_id,
        provider: providerReport(),
        capacity: capacityReport(),
        journal: entries,
        sandboxes: [...sandboxesOf(extent, entries), ...ended],
        partial: extent !== 'all' || manager.recovery.isUnderWay,
      }
    },
    onAnswered: (report, response) => reported.taken(report, response),
    onRegistered: trust.takeRegistration,
    async onInstructions(instructions) {
      trust.binding.report(instructions.control_tokens_bound ?? false)
      trust.revocations.apply(instructions.revocations)
      if (instructions.issuer !== undefined) await trust.takeIssuer(instructions.issuer)
      if (instructions.jwks !== undefined && trust.keys.version === keysAtReport) await trust.takeKeys(instructions.jwks)
      manager.pool.setTargets(selector.provider === undefined || manager.recovery.isUnderWay ? [] : instructions.pools)
      await recovery.settle(instructions.decisions)
    },
  }
}
