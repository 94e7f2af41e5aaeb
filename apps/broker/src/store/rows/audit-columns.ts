import type { AuditEntry, AuditRow } from '../../domain/audit-entry.ts'

/** One row of `audit`; `data` is JSON. */
export type AuditColumns = {
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

/** All columns but the id, which the database gives. */
export const toAuditColumns = (entry: AuditEntry): Omit<AuditColumns, 'id'> => ({
  ts: entry.ts,
  request_id: entry.requestId,
  event: entry.event,
  tenant: entry.tenant,
  caller: entry.caller,
  actor: entry.actor,
  thread_id: entry.threadId,
  session_id: entry.sessionId,
  sandbox_id: entry.sandboxId,
  outcome: entry.outcome,
  code: entry.code,
  ip: entry.ip,
  token_hash: entry.tokenHash,
  data: entry.data === null ? null : JSON.stringify(entry.data),
})

export const toAuditRow = (row: AuditColumns): AuditRow => ({
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
