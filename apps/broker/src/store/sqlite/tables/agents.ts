import { type AgentRow, capacityColumn, toAgent, toAgentRow } from '../../rows/agent-row.ts'
import type { Spent } from '../../rows/enroll-token-row.ts'
import { LIVE } from '../../rows/session-row.ts'
import type { AgentRecord, AgentStore, RegisterOutcome } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from './audit.ts'
import type { SqliteEnrollTokens } from './enroll-tokens.ts'

type Parts = { audit: AppendAudit; enrollTokens: SqliteEnrollTokens }

export function sqliteAgents(db: Db, write: Write, { audit: appendAudit, enrollTokens }: Parts): AgentStore {
  const byInstall = db.prepare<[string], AgentRow>('SELECT * FROM agents WHERE install_id = ?')
  const put = db.prepare(
    `INSERT INTO agents (id, install_id, public_key, enroll_token_id, instance_id, token_hash, public_url, control_url, dataplane_url, preview_domain, relay, provider, capacity, version, clock_drift_ms, registered_at, last_seen_at)
       VALUES (@id, @install_id, @public_key, @enroll_token_id, @instance_id, @token_hash, @public_url, @control_url, @dataplane_url, @preview_domain, @relay, @provider, @capacity, @version, @clock_drift_ms, @registered_at, @last_seen_at)
       ON CONFLICT (install_id) DO UPDATE SET public_key = excluded.public_key, enroll_token_id = excluded.enroll_token_id, instance_id = excluded.instance_id, token_hash = excluded.token_hash,
         public_url = excluded.public_url, control_url = excluded.control_url, dataplane_url = excluded.dataplane_url, preview_domain = excluded.preview_domain, relay = excluded.relay, provider = excluded.provider, capacity = excluded.capacity,
         version = excluded.version, clock_drift_ms = excluded.clock_drift_ms, registered_at = excluded.registered_at,
         last_seen_at = excluded.last_seen_at`,
  )
  const forgetKey = db.prepare('UPDATE agents SET public_key = NULL WHERE id = ?')
  const byId = db.prepare<[string], AgentRow>('SELECT * FROM agents WHERE id = ?')
  const list = db.prepare<[], AgentRow>('SELECT * FROM agents ORDER BY registered_at, id')
  const seen = db.prepare<[object], AgentRow>(
    `UPDATE agents SET last_seen_at = @now, provider = @provider, capacity = @capacity,
       whole_wanted_at = CASE WHEN @isWhole = 1 AND whole_wanted_at < @wantedBefore THEN NULL ELSE whole_wanted_at END
     WHERE id = @id AND token_hash = @tokenHash AND instance_id = @instanceId RETURNING *`,
  )
  const wantWhole = db.prepare<[number, string | null]>('UPDATE agents SET whole_wanted_at = ? WHERE id = coalesce(?, id)')
  const silent = db.prepare<[number, string], AgentRow>(
    `SELECT a.* FROM agents a WHERE (last_seen_at < ? OR id IN (SELECT value FROM json_each(?)))
       AND EXISTS (SELECT 1 FROM sessions s WHERE s.agent_id = a.id AND s.${LIVE} AND s.sandbox_id IS NOT NULL)`,
  )
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
    seen: async ({ provider, capacity, isWhole, ...report }) =>
      write.vital(() => {
        const row = seen.get({
          ...report,
          provider: JSON.stringify(provider),
          capacity: capacityColumn(capacity),
          isWhole: isWhole ? 1 : 0,
        })
        known.delete(report.id)
        // A look at the rest costs less than to find out whether there is something.
        return row && { agent: toAgent(row), ended: true, narrowed: true, unwanted: true, wholeWanted: row.whole_wanted_at !== null }
      }),
    wantWhole: async (id, now) => write.vital(() => void wantWhole.run(now, id)),
    silentWithSessions: async (before, ids) => silent.all(before, JSON.stringify(ids)).map(toAgent),
  }
}
