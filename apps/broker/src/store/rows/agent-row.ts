import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { type AgentCapacity, ProviderReport, type RelayPreference } from '@boxoffice/protocol'
import type { AgentRecord } from '../store.ts'

/** One row of `agents`. */
export type AgentRow = {
  id: string
  install_id: string
  public_key: string | null
  enroll_token_id: string | null
  instance_id: string
  token_hash: string
  public_url: string
  control_url: string
  dataplane_url: string
  preview_domain: string | null
  relay: RelayPreference
  /** JSON. */
  provider: string
  version: string
  clock_drift_ms: number
  registered_at: number
  last_seen_at: number
  whole_wanted_at: number | null
  /** JSON. */
  capacity: string | null
}

/** Reports repeat themselves: parsed once per content. */
const reports = new BoundedCache<string, ProviderReport>(1000)

const toReport = (json: string): ProviderReport => reports.getOrMake(json, () => ProviderReport.parse(JSON.parse(json)))

/** With each report it is another one, so that none is kept parsed. */
export const capacityColumn = (capacity: AgentCapacity | null): string | null => (capacity === null ? null : JSON.stringify(capacity))

export const toAgentRow = (agent: AgentRecord): Omit<AgentRow, 'whole_wanted_at'> => ({
  id: agent.id,
  install_id: agent.installId,
  public_key: agent.publicKey,
  enroll_token_id: agent.enrollTokenId,
  instance_id: agent.instanceId,
  token_hash: agent.tokenHash,
  public_url: agent.publicUrl,
  control_url: agent.controlUrl,
  dataplane_url: agent.dataplaneUrl,
  preview_domain: agent.previewDomain,
  relay: agent.relay,
  provider: JSON.stringify(agent.provider),
  capacity: capacityColumn(agent.capacity),
  version: agent.version,
  clock_drift_ms: Math.round(agent.clockDriftMs),
  registered_at: agent.registeredAt,
  last_seen_at: agent.lastSeenAt,
})

export const toAgent = (row: AgentRow): AgentRecord => ({
  id: row.id,
  installId: row.install_id,
  publicKey: row.public_key,
  enrollTokenId: row.enroll_token_id,
  instanceId: row.instance_id,
  tokenHash: row.token_hash,
  publicUrl: row.public_url,
  controlUrl: row.control_url,
  dataplaneUrl: row.dataplane_url,
  previewDomain: row.preview_domain,
  relay: row.relay,
  provider: toReport(row.provider),
  capacity: row.capacity === null ? null : (JSON.parse(row.capacity) as AgentCapacity),
  version: row.version,
  clockDriftMs: row.clock_drift_ms,
  registeredAt: row.registered_at,
  lastSeenAt: row.last_seen_at,
})
