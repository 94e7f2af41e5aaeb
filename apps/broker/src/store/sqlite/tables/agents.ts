import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { ProviderReport, type RelayPreference } from '@boxoffice/protocol'
import type { AgentRecord, AgentStore, RegisterOutcome } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'
import type { Spent, SqliteEnrollTokens } from './enroll-tokens.ts'

type Row = {
  id: string
  install_id: string
  public_key: string | null
  enroll_token_id: string | null
  instance_id: string
  token_hash: string
  public_url: string
  control_url: string
  dataplane_url: string
  relay: RelayPreference
  provider: string
  version: string
  clock_drift_ms: number
  registered_at: number
  last_seen_at: number
}

type Parts = { audit: AppendAudit; enrollTokens: SqliteEnrollTokens }

export function sqliteAgents(db: Db, write: Write, { audit: appendAudit, enrollTokens }: Parts): AgentStore {
  const byInstall = db.prepare<[string], Row>('SELECT * FROM agents WHERE install_id = ?')
  const put = db.prepare(
    `INSERT INTO agents (id, install_id, public_key, enroll_token_id, instance_id, token_hash, public_url, control_url, dataplane_url, relay, provider, version, clock_drift_ms, registered_at, last_seen_at)
       VALUES (@id, @installId, @publicKey, @enrollTokenId, @instanceId, @tokenHash, @publicUrl, @controlUrl, @dataplaneUrl, @relay, @provider, @version, @clockDriftMs, @registeredAt, @lastSeenAt)
       ON CONFLICT (install_id) DO UPDATE SET public_key = excluded.public_key, enroll_token_id = excluded.enroll_token_id, instance_id = excluded.instance_id, token_hash = excluded.token_hash,
         public_url = excluded.public_url, control_url = excluded.control_url, dataplane_url = excluded.dataplane_url, relay = excluded.relay, provider = excluded.provider,
         version = excluded.version, clock_drift_ms = excluded.clock_drift_ms, registered_at = excluded.registered_at,
         last_seen_at = excluded.last_seen_at`,
  )
  const forgetKey = db.prepare('UPDATE agents SET public_key = NULL WHERE id = ?')
  const byId = db.prepare<[string], Row>('SELECT * FROM agents WHERE id = ?')
  const list = db.prepare<[], Row>('SELECT * FROM agents ORDER BY registered_at, id')
  const seen = db.prepare('UPDATE agents SET last_seen_at = ?, provider = ? WHERE id = ?')
  const spend = ({ enrollTokenId, publicKey, registeredAt }: AgentRecord, id: string, before: Row | undefined): Spent => {
    if (enrollTokenId === null) return 'ok'
    const again = before?.enroll_token_id === enrollTokenId && publicKey !== null && before.public_key === publicKey
    if (!again) return enrollTokens.spend(enrollTokenId, id, registeredAt)
    return enrollTokens.isRevoked(enrollTokenId) ? 'revoked' : 'ok'
  }
  const dataVersion = db.prepare('PRAGMA data_version').pluck()
  /** `ensure` needs its agent each time. What is known here is good until another broker commits something. */
  const known = new Map<string, AgentRecord>()
  let version: unknown
  return {
    register: async (agent, judged, audit) =>
      write.vital((): RegisterOutcome => {
        const before = byInstall.get(agent.installId)
        if (before !== undefined && before.public_key !== null && before.public_key !== agent.publicKey) return { outcome: 'another_key' }
        if (before?.token_hash !== judged?.tokenHash) return { outcome: 'changed' }
        const id = before?.id ?? agent.id
        const spent = spend(agent, id, before)
        if (spent !== 'ok') return { outcome: spent }
        put.run({ ...agent, provider: JSON.stringify(agent.provider), clockDriftMs: Math.round(agent.clockDriftMs) })
        appendAudit(audit)
        known.delete(id)
        return { outcome: 'registered', id }
      }),
    forgetKey: async (id, audit) =>
      write(() => {
        if (forgetKey.run(id).changes === 0) return false
        appendAudit(audit)
        known.delete(id)
        return true
      }),
    byId: async (id) => {
      const current = dataVersion.get()
      if (current !== version) known.clear()
      version = current
      const agent = known.get(id)
      if (agent !== undefined) return agent
      const row = byId.get(id)
      if (row === undefined) return undefined
      const read = toAgent(row)
      known.set(id, read)
      return read
    },
    byInstall: async (installId) => {
      const row = byInstall.get(installId)
      return row && toAgent(row)
    },
    list: async () => list.all().map(toAgent),
    seen: async (id, now, provider) =>
      write.vital(() => {
        seen.run(now, JSON.stringify(provider), id)
        known.delete(id)
      }),
  }
}

/** Reports repeat themselves: parsed once per content. */
const reports = new BoundedCache<string, ProviderReport>(1000)

const toReport = (json: string): ProviderReport => reports.getOrMake(json, () => ProviderReport.parse(JSON.parse(json)))

const toAgent = (row: Row): AgentRecord => ({
  id: row.id,
  installId: row.install_id,
  publicKey: row.public_key,
  enrollTokenId: row.enroll_token_id,
  instanceId: row.instance_id,
  tokenHash: row.token_hash,
  publicUrl: row.public_url,
  controlUrl: row.control_url,
  dataplaneUrl: row.dataplane_url,
  relay: row.relay,
  provider: toReport(row.provider),
  version: row.version,
  clockDriftMs: row.clock_drift_ms,
  registeredAt: row.registered_at,
  lastSeenAt: row.last_seen_at,
})
