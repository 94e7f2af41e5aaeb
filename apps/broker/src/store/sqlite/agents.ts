import { ProviderReport, type RelayPreference } from '@boxoffice/protocol'
import type { AgentRecord, AgentStore } from '../store.ts'
import type { AppendAudit } from './audit.ts'
import { type Db, immediate } from './database.ts'

type Row = {
  id: string
  install_id: string
  instance_id: string
  token_hash: string
  public_url: string
  control_url: string
  relay: RelayPreference
  provider: string
  version: string
  clock_drift_ms: number
  registered_at: number
  last_seen_at: number
}

export function sqliteAgents(db: Db, appendAudit: AppendAudit): AgentStore {
  const register = db
    .prepare(
      `INSERT INTO agents (id, install_id, instance_id, token_hash, public_url, control_url, relay, provider, version, clock_drift_ms, registered_at, last_seen_at)
       VALUES (@id, @installId, @instanceId, @tokenHash, @publicUrl, @controlUrl, @relay, @provider, @version, @clockDriftMs, @registeredAt, @lastSeenAt)
       ON CONFLICT (install_id) DO UPDATE SET instance_id = excluded.instance_id, token_hash = excluded.token_hash,
         public_url = excluded.public_url, control_url = excluded.control_url, relay = excluded.relay, provider = excluded.provider,
         version = excluded.version, clock_drift_ms = excluded.clock_drift_ms, registered_at = excluded.registered_at,
         last_seen_at = excluded.last_seen_at
       RETURNING id`,
    )
    .pluck()
  const byId = db.prepare<[string], Row>('SELECT * FROM agents WHERE id = ?')
  const list = db.prepare<[], Row>('SELECT * FROM agents ORDER BY registered_at, id')
  const seen = db.prepare('UPDATE agents SET last_seen_at = ?, provider = ? WHERE id = ?')
  return {
    register: async (agent, audit) =>
      immediate(db, () => {
        const id = register.get({ ...agent, provider: JSON.stringify(agent.provider), clockDriftMs: Math.round(agent.clockDriftMs) })
        appendAudit(audit)
        return id as string
      }),
    byId: async (id) => {
      const row = byId.get(id)
      return row && toAgent(row)
    },
    list: async () => list.all().map(toAgent),
    seen: async (id, now, provider) => immediate(db, () => void seen.run(now, JSON.stringify(provider), id)),
  }
}

const toAgent = (row: Row): AgentRecord => ({
  id: row.id,
  installId: row.install_id,
  instanceId: row.instance_id,
  tokenHash: row.token_hash,
  publicUrl: row.public_url,
  controlUrl: row.control_url,
  relay: row.relay,
  provider: ProviderReport.parse(JSON.parse(row.provider)),
  version: row.version,
  clockDriftMs: row.clock_drift_ms,
  registeredAt: row.registered_at,
  lastSeenAt: row.last_seen_at,
})
