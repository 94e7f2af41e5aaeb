import { LIVE } from '../../rows/session-row.ts'
import type { SessionCounts } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'

type Count = { name: string; n: number }

export type SqliteCounts = {
  store: SessionCounts
  /** Live sessions of a tenant, and of those the ones with a label: kept by triggers, so that a creation counts nothing. */
  live(tenant: string): number
  labeled(tenant: string, label: { key: string; value: string }): number
}

export function sqliteCounts(db: Db): SqliteCounts {
  const live = db.prepare<[string], number>('SELECT live FROM live_by_tenant WHERE tenant = ?').pluck()
  const labeled = db
    .prepare<[string, string, string], number>('SELECT live FROM live_by_label WHERE tenant = ? AND key = ? AND value = ?')
    .pluck()
  const byAgent = db.prepare<[string], Count>(
    'SELECT agent_id AS name, live AS n FROM live_by_agent WHERE agent_id IN (SELECT value FROM json_each(?))',
  )
  const byState = db.prepare<[], Count>(
    `SELECT state AS name, count(*) AS n FROM sessions INDEXED BY sessions_agent_live WHERE ${LIVE} GROUP BY state`,
  )
  // The index is named: without statistics SQLite takes the one over a tenant's whole history.
  const OF_TENANT = `FROM sessions INDEXED BY sessions_live WHERE tenant = ? AND ${LIVE}`
  const busy = db.prepare<[string], number>(`SELECT count(*) ${OF_TENANT} AND busy = 1`).pluck()
  const states = db.prepare<[string], Count>(`SELECT state AS name, count(*) AS n ${OF_TENANT} GROUP BY state`)
  const labeledStates = db.prepare<[string, string, string], Count>(
    `SELECT state AS name, count(*) AS n ${OF_TENANT}
       AND EXISTS (SELECT 1 FROM json_each(sessions.labels) l WHERE l.key = ? AND l.value = ?) GROUP BY state`,
  )
  const toRecord = (rows: Count[]): Record<string, number> => Object.fromEntries(rows.map(({ name, n }) => [name, n]))
  return {
    live: (tenant) => live.get(tenant) ?? 0,
    labeled: (tenant, { key, value }) => labeled.get(tenant, key, value) ?? 0,
    store: {
      liveByState: async () => toRecord(byState.all()),
      liveByAgent: async (agentIds) => toRecord(byAgent.all(JSON.stringify(agentIds))),
      busyOf: async (tenant) => busy.get(tenant) ?? 0,
      liveOf: async (tenant, label) => toRecord(label === null ? states.all(tenant) : labeledStates.all(tenant, label.key, label.value)),
    },
  }
}
