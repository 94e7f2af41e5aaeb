import type { AuditEntry, AuditFilter } from '../../../domain/audit-entry.ts'
import { type AuditColumns, toAuditColumns, toAuditRow } from '../../rows/audit-columns.ts'
import type { AuditStore } from '../../store.ts'
import type { Database, Sql } from '../engine/database.ts'
import { holdableText } from '../engine/holdable-text.ts'

/** Adds entries to the change that they record [C-72]; in the transaction that makes it, in one round trip. */
export type AppendAudit = (tx: Sql, entries: readonly AuditEntry[]) => Promise<void>

const COLUMNS = 'ts, request_id, event, tenant, caller, actor, thread_id, session_id, sandbox_id, outcome, code, ip, token_hash, data'
const ENTRY = COLUMNS.replaceAll(/\w+/g, 'entry.$&')

/** The rows of `auditJson`, which is the parameter of this number; for `INSERT INTO audit (…) SELECT … FROM`. */
const auditRows = (parameter: number): string => `json_to_recordset($${parameter}::json) AS entry (
  ts bigint, request_id text, event text, tenant text, caller text, actor text, thread_id text, session_id text, sandbox_id text,
  outcome text, code text, ip text, token_hash text, data text)`

/**
 * A statement that adds the entries of `auditJson`. `parameter`: the number of that value. `change`: the name of a part of the same
 * statement's `WITH`, which has one row or none; with none nothing is added.
 */
export const auditInsert = (parameter: number, change?: string): string =>
  `INSERT INTO audit (${COLUMNS}) SELECT ${ENTRY} FROM ${change === undefined ? '' : `${change}, `}${auditRows(parameter)}`

/** Entries as the one value that `auditInsert` reads. No text may keep a change, or its refusal, from being recorded. */
export const auditJson = (entries: readonly AuditEntry[]): string =>
  JSON.stringify(entries.map(toAuditColumns), (_, value) => (typeof value === 'string' ? holdableText(value) : value))

const INSERT = auditInsert(1)

export const appendAudit: AppendAudit = async (tx, entries) => {
  if (entries.length > 0) await tx.run(INSERT, [auditJson(entries)])
}

export function postgresAudit({ read, once }: Database): AuditStore {
  return {
    append: (entries) => appendAudit(once, entries),
    query: async (filter) => (await read.rows<AuditColumns>(...auditQuery(filter))).map(toAuditRow),
  }
}

/** The query of a filter. Newest first: by arrival, and within a span of time by their time. */
function auditQuery(filter: AuditFilter): [text: string, values: unknown[]] {
  const inTime = filter.since !== null || filter.until !== null
  const conditions: [condition: (n: string) => string, value: unknown][] = [
    [(n) => `tenant = ${n}`, filter.tenant],
    [(n) => `event = ${n}`, filter.event],
    [(n) => `session_id = ${n}`, filter.sessionId],
    [(n) => `thread_id = ${n}`, filter.threadId],
    [(n) => `caller = ${n}`, filter.caller],
    [(n) => `ts >= ${n}`, filter.since],
    [(n) => `ts <= ${n}`, filter.until],
    [(n) => (inTime ? `(ts, id) < (SELECT ts, id FROM audit WHERE id = ${n})` : `id < ${n}`), filter.before],
  ]
  const given = conditions.filter(([, value]) => value !== null)
  const where = given.length === 0 ? '' : `WHERE ${given.map(([condition], i) => condition(`$${i + 1}`)).join(' AND ')}`
  const order = inTime ? 'ts DESC, id DESC' : 'id DESC'
  return [`SELECT * FROM audit ${where} ORDER BY ${order} LIMIT $${given.length + 1}`, [...given.map(([, value]) => value), filter.limit]]
}
