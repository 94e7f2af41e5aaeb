import { type AgentRow, toAgent, toAgentRow } from '../../rows/agent-row.ts'
import type { Spent } from '../../rows/enroll-token-row.ts'
import type { AgentRecord, AgentStore, RegisterOutcome } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'
import type { SqliteEnrollTokens } from './enroll-tokens.ts'

type Parts = { audit: AppendAudit; enrollTokens: SqliteEnrollTokens }

export function sqliteAgents(db: Db, write: Write, { audit: appendAudit, enrollTokens }: Parts): AgentStore {
  const byInstall = db.prepare<[string], AgentRow>('SELECT * FROM agents WHERE install_id = ?')
  const put = db.prepare(
    `INSERT INTO agents (id, install_id, public_key, enroll_token_id, instance_id, token_hash, public_url, control_url, dataplane_url, relay, provider, version, clock_drift_ms, registered_at, last_seen_at)
       VALUES (@id, @install_id, @public_key, @enroll_token_id, @instance_id, @token_hash, @public_url, @control_url, @dataplane_url, @relay, @provider, @version, @clock_drift_ms, @registered_at, @last_seen_at)
       ON CONFLICT (install_id) DO UPDATE SET public_key = excluded.public_key, enroll_token_id = excluded.enroll_token_id, instance_id = excluded.instance_id, token_hash = excluded.token_hash,
         public_url = excluded.public_url, control_url = excluded.control_url, dataplane_url = excluded.dataplane_url, relay = excluded.relay, provider = excluded.provider,
         version = excluded.version, clock_drift_ms = excluded.clock_drift_ms, registered_at = excluded.registered_at,
         last_seen_at = excluded.last_seen_at`,
  )
  const forgetKey = db.prepare('UPDATE agents SET public_key = NULL WHERE id = ?')
  const byId = db.prepare<[string], AgentRow>('SELECT * FROM agents WHERE id = ?')
  const list = db.prepare<[], AgentRow>('SELECT * FROM agents ORDER BY registered_at, id')
  const seen = db.prepare('UPDATE agents SET last_seen_at = ?, provider = ? WHERE id = ?')
  const spend = ({ enrollTokenId, publicKey, registeredAt }: AgentRecord, id: string, before: AgentRow | undefined): Spent => {
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
    register: async (agent, judged, audit, takesOver = false) =>
      write.vital((): RegisterOutcome => {
        const before = byInstall.get(agent.installId)
        const isPinned = !takesOver && before !== undefined && before.public_key !== null
        if (isPinned && before.public_key !== agent.publicKey) return { outcome: 'another_key' }
        if (before?.token_hash !== judged?.tokenHash) return { outcome: 'changed' }
        const id = before?.id ?? agent.id
        const spent = spend(agent, id, before)
        if (spent !== 'ok') return { outcome: spent }
        put.run(toAgentRow(agent))
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
