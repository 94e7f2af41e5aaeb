import type { AuditEntry, AuditFilter } from '../../../domain/audit-entry.ts'
import { type AuditColumns, toAuditColumns, toAuditRow } from '../../rows/audit-columns.ts'
import type { AuditStore } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

/** Inside a transaction: adds entries to the change that they record [C-72]. */
export type AppendAudit = (entries: readonly AuditEntry[]) => void

export function sqliteAudit(db: Db, write: Write): { store: AuditStore; append: AppendAudit } {
  const insert = db.prepare(
    `INSERT INTO audit (ts, request_id, event, tenant, caller, actor, thread_id, session_id, sandbox_id, outcome, code, ip, token_hash, data)
     VALUES (@ts, @request_id, @event, @tenant, @caller, @actor, @thread_id, @session_id, @sandbox_id, @outcome, @code, @ip, @token_hash, @data)`,
  )
  const append: AppendAudit = (entries) => {
    for (const entry of entries) insert.run(toAuditColumns(entry))
  }
  return {
    append,
    store: {
      append: async (entries) => write(() => append(entries)),
      query: async (filter) => {
        const [sql, values] = auditQuery(filter)
        return db
          .prepare<unknown[], AuditColumns>(sql)
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
