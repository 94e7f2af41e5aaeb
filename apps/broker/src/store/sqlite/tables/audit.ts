import type { AuditEntry, AuditFilter, AuditRow } from '../../../domain/audit-entry.ts'
import type { AuditStore } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

type Row = {
  id: number
  ts: number
  request_id: string | null
  event: AuditEntry['event']
  tenant: string | null
  caller: string | null
  actor: string | null
  thread_id: string | null
  session_id: string | null
  sandbox_id: string | null
  outcome: AuditEntry['outcome']
  code: string | null
  ip: string | null
  token_hash: string | null
  data: string | null
}

/** Inside a transaction: adds entries to the change that they record [C-72]. */
export type AppendAudit = (entries: readonly AuditEntry[]) => void

export function sqliteAudit(db: Db, write: Write): { store: AuditStore; append: AppendAudit } {
  const insert = db.prepare(
    `INSERT INTO audit (ts, request_id, event, tenant, caller, actor, thread_id, session_id, sandbox_id, outcome, code, ip, token_hash, data)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const append: AppendAudit = (entries) => {
    for (const e of entries)
      insert.run(
        ...[e.ts, e.requestId, e.event, e.tenant, e.caller, e.actor, e.threadId, e.sessionId, e.sandboxId, e.outcome, e.code, e.ip],
        ...[e.tokenHash, e.data === null ? null : JSON.stringify(e.data)],
      )
  }
  return {
    append,
    store: {
      append: async (entries) => write(() => append(entries)),
      query: async (filter) => {
        const [sql, values] = auditQuery(filter)
        return db
          .prepare<unknown[], Row>(sql)
          .all(...values)
          .map(toAuditRow)
      },
    },
  }
}

/**
 * The query of a filter, so that an index finds what it asks for without a look at the rest. Newest first: by arrival, and within a
 * span of time by their time.
 */
export function auditQuery(filter: AuditFilter): [sql: string, values: unknown[]] {
  const inTime = filter.since !== null || filter.until !== null
  const ofOne = filter.sessionId !== null || filter.threadId !== null
  const others = [filter.event, filter.sessionId, filter.threadId, filter.caller, filter.since, filter.until]
  const conditions: [string, unknown][] = [
    // A tenant has many; its index is for those who ask for nothing else.
    [others.every((value) => value === null) ? 'tenant = ?' : '+tenant = ?', filter.tenant],
    ['event = ?', filter.event],
    ['session_id = ?', filter.sessionId],
    ['thread_id = ?', filter.threadId],
    ['caller = ?', filter.caller],
    ['ts >= ?', filter.since],
    ['ts <= ?', filter.until],
    [inTime ? '(ts, id) < (SELECT ts, id FROM audit WHERE id = ?)' : 'id < ?', filter.before],
  ]
  const given = conditions.filter(([, value]) => value !== null)
  const where = given.length === 0 ? '' : `WHERE ${given.map(([condition]) => condition).join(' AND ')}`
  const from = inTime && !ofOne ? 'audit INDEXED BY audit_ts' : 'audit'
  const order = inTime ? 'ts DESC, id DESC' : 'id DESC'
  return [`SELECT * FROM ${from} ${where} ORDER BY ${order} LIMIT ?`, [...given.map(([, value]) => value), filter.limit]]
}

const toAuditRow = (row: Row): AuditRow => ({
  id: row.id,
  ts: row.ts,
  requestId: row.request_id,
  event: row.event,
  tenant: row.tenant,
  caller: row.caller,
  actor: row.actor,
  threadId: row.thread_id,
  sessionId: row.session_id,
  sandboxId: row.sandbox_id,
  outcome: row.outcome,
  code: row.code,
  ip: row.ip,
  tokenHash: row.token_hash,
  data: row.data === null ? null : (JSON.parse(row.data) as Record<string, unknown>),
})
