import { LIVE, type SessionRow } from '../../rows/session-row.ts'
import type { SessionFilter } from '../../session-store.ts'
import type { Sql } from '../engine/database.ts'

/** `?` stands for a value, in the order of the values. */
type Condition = [text: string, ...values: unknown[]]

const IS_MEMBER = `EXISTS (SELECT 1 FROM scopes o WHERE o.tenant = s.tenant AND o.scope_type = s.scope_type AND o.scope_id = s.scope_id
  AND (o.owner = ? OR EXISTS (SELECT 1 FROM scope_members m WHERE m.tenant = s.tenant AND m.scope_type = s.scope_type
    AND m.scope_id = s.scope_id AND m.principal = ?)))`

/** A page of sessions, newest first. Each text is put together from these constants, so there are a few dozen. */
export function listSessions(read: Sql, filter: SessionFilter): Promise<SessionRow[]> {
  const conditions = conditionsOf(filter)
  let parameters = 0
  const where = conditions.map(([text]) => text.replaceAll('?', () => `$${++parameters}`)).join(' AND ')
  const text = `SELECT * FROM sessions AS s WHERE ${where} ORDER BY created_at DESC, id DESC LIMIT $${++parameters}`
  return read.rows<SessionRow>(text, [...conditions.flatMap(([, ...values]) => values), filter.limit])
}

function conditionsOf({ tenant, principal, state, scopeType, scopeId, label, after }: SessionFilter): Condition[] {
  const hasEnded = state === 'terminated' || state === 'failed'
  const conditions: Condition[] = [['tenant = ?', tenant]]
  if (!hasEnded) conditions.push([LIVE])
  if (state !== null) conditions.push(['state = ?', state])
  // Ended ones are listed for whoever owned the scope when they were made.
  if (principal !== null) conditions.push(hasEnded ? ['owner = ?', principal] : [IS_MEMBER, principal, principal])
  if (scopeType !== null) conditions.push(['scope_type = ?', scopeType])
  if (scopeId !== null) conditions.push(['scope_id = ?', scopeId])
  if (label !== null) conditions.push(['labels::json ->> ?::text = ?', label.key, label.value])
  if (after !== null) conditions.push(['(created_at, id) < (?, ?)', after.createdAt, after.id])
  return conditions
}
