import { LIVE, type SessionRow } from '../../rows/session-row.ts'
import type { SessionFilter } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'

/**
 * Pages of sessions, newest first. The index is named in each case: without statistics SQLite may take one that reads a
 * tenant's whole history. Live sessions are few (a quota bounds them), so any filter may look at all of them; ended ones are
 * many, so there each filter has its own index.
 */
export function listSessions(db: Db): (filter: SessionFilter) => SessionRow[] {
  return (filter) => {
    const { index, conditions } = filter.state === 'terminated' || filter.state === 'failed' ? ended(filter) : live(filter)
    const given = [...conditions, ...common(filter)]
    const sql = `SELECT * FROM sessions AS s INDEXED BY ${index} WHERE ${given.map(([sql]) => sql).join(' AND ')}
      ORDER BY created_at DESC, id DESC LIMIT ?`
    return db.prepare<unknown[], SessionRow>(sql).all(...given.flatMap(([, ...values]) => values), filter.limit)
  }
}

type Condition = [sql: string, ...values: unknown[]]
type Choice = { index: string; conditions: Condition[] }

const IS_MEMBER = `EXISTS (SELECT 1 FROM scopes o WHERE o.tenant = s.tenant AND o.scope_type = s.scope_type AND o.scope_id = s.scope_id
  AND (o.owner = ? OR EXISTS (SELECT 1 FROM scope_members m WHERE m.tenant = s.tenant AND m.scope_type = s.scope_type
    AND m.scope_id = s.scope_id AND m.principal = ?)))`

const live = ({ state, principal }: SessionFilter): Choice => ({
  index: 'sessions_tenant_live',
  conditions: [
    [LIVE],
    ...(state === null ? [] : [['state = ?', state] satisfies Condition]),
    ...(principal === null ? [] : [[IS_MEMBER, principal, principal] satisfies Condition]),
  ],
})

/** Ended ones are listed for whoever owned the scope when they were made. */
function ended({ state, principal, scopeId }: SessionFilter): Choice {
  const owned: Condition[] = principal === null ? [] : [['owner = ?', principal]]
  if (scopeId !== null)
    return {
      index: 'sessions_scope',
      conditions: [["scope_type IN ('thread', 'workspace', 'assistant', 'deployment')"], ['state = ?', state], ...owned],
    }
  return { index: principal === null ? 'sessions_tenant' : 'sessions_owner', conditions: [['state = ?', state], ...owned] }
}

function common({ tenant, scopeType, scopeId, label, after }: SessionFilter): Condition[] {
  const conditions: Condition[] = [['tenant = ?', tenant]]
  if (scopeType !== null) conditions.push(['scope_type = ?', scopeType])
  if (scopeId !== null) conditions.push(['scope_id = ?', scopeId])
  if (label !== null)
    conditions.push(['EXISTS (SELECT 1 FROM json_each(s.labels) l WHERE l.key = ? AND l.value = ?)', label.key, label.value])
  if (after !== null) conditions.push(['(created_at, id) < (?, ?)', after.createdAt, after.id])
  return conditions
}
