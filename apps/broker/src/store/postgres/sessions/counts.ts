import { LIVE } from '../../rows/session-row.ts'
import type { SessionCounts } from '../../session-store.ts'
import type { Database } from '../engine/database.ts'

type Count = { name: string; n: number }

const toRecord = (rows: Count[]): Record<string, number> => Object.fromEntries(rows.map(({ name, n }) => [name, n]))

export function postgresCounts({ read }: Database): SessionCounts {
  const count = async (text: string, values?: unknown[]) => toRecord(await read.rows<Count>(text, values))
  return {
    liveByState: () => count(`SELECT state AS name, count(*) AS n FROM sessions WHERE ${LIVE} GROUP BY state`),
    liveByAgent: (agentIds) =>
      count(`SELECT agent_id AS name, count(*) AS n FROM sessions WHERE agent_id = ANY($1) AND ${LIVE} GROUP BY agent_id`, [agentIds]),
    async busyOf(tenant) {
      const text = `SELECT count(*) AS n FROM sessions WHERE tenant = $1 AND ${LIVE} AND busy = 1`
      return (await read.rows<{ n: number }>(text, [tenant]))[0]?.n ?? 0
    },
    liveOf: (tenant, label) =>
      label === null
        ? count(`SELECT state AS name, count(*) AS n FROM sessions WHERE tenant = $1 AND ${LIVE} GROUP BY state`, [tenant])
        : count(
            `SELECT state AS name, count(*) AS n FROM sessions WHERE tenant = $1 AND ${LIVE} AND labels::json ->> $2::text = $3 GROUP BY state`,
            [tenant, label.key, label.value],
          ),
  }
}
