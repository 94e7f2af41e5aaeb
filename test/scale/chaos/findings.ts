import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Stack } from '../../e2e/support/stack.ts'
import type { CrowdReport } from './crowd.ts'

/** How long what is under way when the crowd has left may take: a dead broker's work, and ends that wait for their agents. */
const SETTLED_WITHIN_MS = 120_000
const LIVE = "state IN ('provisioning', 'active', 'idle', 'suspended')"

const UNDER_WAY = `SELECT (SELECT count(*) FROM session_endings)::int + (SELECT count(*) FROM sessions WHERE state = 'provisioning')::int AS n`
const DOUBLED = `SELECT scope_id AS scope, count(*)::int AS n FROM sessions WHERE ${LIVE} GROUP BY tenant, scope_type, scope_id HAVING count(*) > 1`
// Of an ended session the last event has the last number; a number that is missing is one of an event that is lost.
const INCOMPLETE = `SELECT s.id, s.state, s.reason, s.event_seq::int AS last, count(e.id)::int AS n, coalesce(min(e.id), 1)::int AS first,
    string_agg(e.id || ' ' || e.type, ', ' ORDER BY e.id) FILTER (WHERE e.id > s.event_seq - 8) AS latest
  FROM sessions s LEFT JOIN session_events e ON e.session_id = s.id
  GROUP BY s.id HAVING count(e.id) <> s.event_seq - coalesce(min(e.id), 1) + 1`
const NOT_ONCE = `SELECT t.hash, count(a.id)::int AS n FROM unnest($1::text[]) AS t (hash) LEFT JOIN audit a ON a.token_hash = t.hash
  AND a.event LIKE 'sandbox.%' GROUP BY t.hash HAVING count(a.id) <> 1 LIMIT 20`
const FAILED = `SELECT id, reason FROM sessions WHERE state = 'failed'`

/** What is wrong after the crowd has left, as the database, the agent and the clients have it. */
export const findingsOf = async (stack: Stack, report: CrowdReport): Promise<string[]> => {
  const { postgres, databaseUrl, agentDataDir } = stack
  if (postgres === undefined || databaseUrl === undefined) throw new Error('the stack has no PostgreSQL')
  const ask = <R extends object>(text: string, values: unknown[] = []) => postgres.ask<R>(text, values, databaseUrl)
  const sandboxes = async (): Promise<string[]> => {
    const placed = await ask<{ id: string }>(`SELECT sandbox_id AS id FROM sessions WHERE ${LIVE} AND sandbox_id IS NOT NULL`)
    const known = new Set(placed.map(({ id }) => id))
    const left = (await readdir(join(agentDataDir, 'sandboxes'))).filter((id) => !known.delete(id))
    return [...left.map((id) => `the sandbox ${id} has no live session`), ...[...known].map((id) => `the live sandbox ${id} is not there`)]
  }
  const end = performance.now() + SETTLED_WITHIN_MS
  let orphans: string[]
  let underWay: number
  do {
    await delay(500)
    orphans = await sandboxes()
    underWay = (await ask<{ n: number }>(UNDER_WAY))[0]?.n ?? 0
  } while (orphans.length + underWay > 0 && performance.now() < end)

  const findings = [...orphans]
  if (underWay > 0) findings.push(`${underWay} sessions still begin or end`)
  for (const { scope, n } of await ask<{ scope: string; n: number }>(DOUBLED)) findings.push(`the scope ${scope} has ${n} live sessions`)
  for (const row of await ask<Incomplete>(INCOMPLETE))
    findings.push(
      `the session ${row.id} (${row.state}, ${row.reason}) has ${row.n} events from ${row.first} to ${row.last}: … ${row.latest}`,
    )
  for (const { id, reason } of await ask<{ id: string; reason: string }>(FAILED)) findings.push(`the session ${id} failed: ${reason}`)
  for (const { hash, n } of await ask<{ hash: string; n: number }>(NOT_ONCE, [report.tokens]))
    findings.push(`a token (${hash.slice(0, 8)}…) has ${n} audit entries`)
  for (const [thread, ids] of report.shared)
    if (ids.size > 1) findings.push(`the thread ${thread}, which nobody released, had the sessions ${[...ids].join(', ')}`)
  return [...findings, ...report.wrong]
}

type Incomplete = { id: string; state: string; reason: string | null; last: number; n: number; first: number; latest: string | null }
