import { type AgentRow, capacityColumn, toAgent } from '../../rows/agent-row.ts'
import type { AgentNews, AgentSeen } from '../../store.ts'
import type { Database } from '../engine/database.ts'
import { grouped } from '../engine/grouped.ts'

/** So much may a report be delayed; each of a thousand agents alone would be a third of what its report costs the broker. */
const GROUP_MS = 40

/** Notes that agents have reported; see `AgentStore.seen`. */
export const agentReports = ({ once }: Pick<Database, 'once'>): ((report: AgentSeen) => Promise<AgentNews | undefined>) =>
  grouped(
    async (reports) => {
      const rows = await once.rows<SeenRow>(SEEN, [JSON.stringify(reports.map(toRow))])
      const news = new Map(rows.map((row) => [row.agent.id, toNews(row)]))
      return reports.map(({ id }) => news.get(id))
    },
    { keyOf: ({ id }) => id, everyMs: GROUP_MS },
  )

type SeenRow = { agent: AgentRow } & Pick<AgentNews, 'ended' | 'narrowed' | 'unwanted'>

const toNews = ({ agent, ...found }: SeenRow): AgentNews => ({
  agent: toAgent(agent),
  ...found,
  wholeWanted: agent.whole_wanted_at !== null,
})

const toRow = ({ id, tokenHash, instanceId, provider, capacity, now, since, isWhole, wantedBefore }: AgentSeen) => ({
  ...{ id, now, since, token_hash: tokenHash, instance_id: instanceId, is_whole: isWhole, wanted_before: wantedBefore },
  ...{ provider: JSON.stringify(provider), capacity: capacityColumn(capacity) },
})

// One round trip says all that there nearly always is. A join of grants and sessions may be planned as a scan of all sessions, for each
// report; a subquery for each row is looked up by its key, whatever the planner knows of the tables. The row as JSON: the driver looks at
// each column of each answer anew.
const SEEN = `UPDATE agents a SET last_seen_at = r.now, provider = r.provider, capacity = r.capacity,
    whole_wanted_at = CASE WHEN r.is_whole AND a.whole_wanted_at < r.wanted_before THEN NULL ELSE a.whole_wanted_at END
  FROM json_to_recordset($1) AS r(id text, token_hash text, instance_id text, provider text, capacity text, now bigint, since bigint,
    is_whole boolean, wanted_before bigint)
  WHERE a.id = r.id AND a.token_hash = r.token_hash AND a.instance_id = r.instance_id
  RETURNING to_json(a) AS agent,
    EXISTS (SELECT 1 FROM sessions s WHERE s.agent_id = a.id AND s.ended_at > r.since) AS ended,
    EXISTS (SELECT 1 FROM grants g WHERE g.narrowed_at > r.since / 1000
      AND (SELECT s.agent_id FROM sessions s WHERE s.id = g.session_id) = a.id) AS narrowed,
    EXISTS (SELECT 1 FROM workspaces w WHERE w.agent_id = a.id AND w.unwanted = 1) AS unwanted`
