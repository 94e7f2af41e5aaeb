import { type AgentRow, toAgent, toAgentRow } from '../../rows/agent-row.ts'
import type { Spent } from '../../rows/enroll-token-row.ts'
import { LIVE } from '../../rows/session-row.ts'
import type { AgentRecord, AgentStore, RegisterOutcome } from '../../store.ts'
import type { Database, Sql } from '../engine/database.ts'
import { lockNamed } from '../engine/locks.ts'
import { agentReports } from './agent-reports.ts'
import { appendAudit } from './audit.ts'
import { isRevoked, spend } from './enroll-tokens.ts'

export function postgresAgents(database: Database): AgentStore {
  const { read, once, write } = database
  return {
    register: (agent, judged, audit, takesOver = false) =>
      write(async (tx): Promise<RegisterOutcome> => {
        // Two registrations of a new install have no row yet to take turns at.
        await lockNamed(tx, `install ${agent.installId}`)
        const [before] = await tx.rows<AgentRow>('SELECT * FROM agents WHERE install_id = $1 FOR UPDATE', [agent.installId])
        const isPinned = !takesOver && before !== undefined && before.public_key !== null
        if (isPinned && before.public_key !== agent.publicKey) return { outcome: 'another_key' }
        if (before?.token_hash !== judged?.tokenHash) return { outcome: 'changed' }
        const id = before?.id ?? agent.id
        const spent = await spendFor(tx, agent, id, before)
        if (spent !== 'ok') return { outcome: spent }
        await tx.run(PUT, valuesOf(agent))
        await appendAudit(tx, audit)
        return { outcome: 'registered', id }
      }),
    forgetKey: (id, audit) =>
      write(async (tx) => {
        if ((await tx.run('UPDATE agents SET public_key = NULL WHERE id = $1', [id])) === 0) return false
        await appendAudit(tx, audit)
        return true
      }),
    byId: async (id) => (await read.rows<AgentRow>('SELECT * FROM agents WHERE id = $1', [id])).map(toAgent)[0],
    byInstall: async (installId) => (await read.rows<AgentRow>('SELECT * FROM agents WHERE install_id = $1', [installId])).map(toAgent)[0],
    list: async () => (await read.rows<AgentRow>('SELECT * FROM agents ORDER BY registered_at, id')).map(toAgent),
    seen: agentReports(database),
    wantWhole: async (id, now) => {
      await once.run('UPDATE agents SET whole_wanted_at = $1 WHERE id = coalesce($2, id)', [now, id])
    },
    silentWithSessions: async (before, ids) => (await read.rows<AgentRow>(SILENT, [before, ids])).map(toAgent),
  }
}

const SILENT = `SELECT a.* FROM agents a WHERE (last_seen_at < $1 OR id = ANY($2))
  AND EXISTS (SELECT 1 FROM sessions s WHERE s.agent_id = a.id AND s.${LIVE} AND s.sandbox_id IS NOT NULL)`

async function spendFor(
  tx: Sql,
  { enrollTokenId, publicKey, registeredAt }: AgentRecord,
  id: string,
  before: AgentRow | undefined,
): Promise<Spent> {
  if (enrollTokenId === null) return 'ok'
  const again = before?.enroll_token_id === enrollTokenId && publicKey !== null && before.public_key === publicKey
  if (!again) return spend(tx, enrollTokenId, id, registeredAt)
  return (await isRevoked(tx, enrollTokenId)) ? 'revoked' : 'ok'
}

const PUT = `INSERT INTO agents
    (id, install_id, public_key, enroll_token_id, instance_id, token_hash, public_url, control_url, dataplane_url, relay, provider, version,
     clock_drift_ms, registered_at, last_seen_at, capacity, preview_domain)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
  ON CONFLICT (install_id) DO UPDATE SET
    public_key = excluded.public_key, enroll_token_id = excluded.enroll_token_id, instance_id = excluded.instance_id,
    token_hash = excluded.token_hash, public_url = excluded.public_url, control_url = excluded.control_url,
    dataplane_url = excluded.dataplane_url, relay = excluded.relay, provider = excluded.provider, version = excluded.version,
    clock_drift_ms = excluded.clock_drift_ms, registered_at = excluded.registered_at, last_seen_at = excluded.last_seen_at,
    capacity = excluded.capacity, preview_domain = excluded.preview_domain`

/** In the order of `PUT`. */
function valuesOf(agent: AgentRecord): unknown[] {
  const row = toAgentRow(agent)
  return [
    ...[row.id, row.install_id, row.public_key, row.enroll_token_id, row.instance_id, row.token_hash, row.public_url, row.control_url],
    ...[row.dataplane_url, row.relay, row.provider, row.version, row.clock_drift_ms, row.registered_at, row.last_seen_at, row.capacity],
    row.preview_domain,
  ]
}
