import { z } from 'zod'
import { isRootOperator } from '../../access/principals.ts'
import type { AuditRow } from '../../domain/audit-entry.ts'
import { decodeCursor, pageOf } from '../../http/cursor.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { AuditStore } from '../../store/store.ts'

const Time = z.iso.datetime({ offset: true }).transform((time) => Date.parse(time))

const AuditQuery = z.object({
  event: z.string().max(64).optional(),
  session_id: z.string().max(64).optional(),
  thread_id: z.string().max(256).optional(),
  caller: z.string().max(128).optional(),
  since: Time.optional(),
  until: Time.optional(),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  cursor: z.string().max(200).optional(),
})

const Entry = z.object({
  id: z.number().int(),
  ts: z.string(),
  request_id: z.string().nullable(),
  event: z.string(),
  tenant: z.string().nullable(),
  caller: z.string().nullable(),
  actor: z.string().nullable(),
  thread_id: z.string().nullable(),
  session_id: z.string().nullable(),
  sandbox_id: z.string().nullable(),
  outcome: z.enum(['ok', 'refused', 'failed']),
  code: z.string().nullable(),
  ip: z.string().nullable(),
  token_hash: z.string().nullable(),
  /** What the event tells beyond these: `jti`, `route`, `exec_id` and so on. */
  data: z.record(z.string(), z.unknown()).nullable(),
})

/** The audit log [C-72]; operators see their tenant, those of the root tenant everything. */
export const auditRoutes = (audit: AuditStore): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: '/v1/audit',
    summary: 'Read the audit log, newest first',
    auth: 'operator',
    query: AuditQuery,
    responses: { 200: { description: 'One page', schema: z.object({ entries: z.array(Entry), next_cursor: z.string().nullable() }) } },
    async handle({ principal, query }) {
      const rows = await audit.query({
        tenant: isRootOperator(principal) ? null : principal.tenant,
        event: query.event ?? null,
        sessionId: query.session_id ?? null,
        threadId: query.thread_id ?? null,
        caller: query.caller ?? null,
        since: query.since ?? null,
        until: query.until ?? null,
        limit: query.limit + 1,
        before: query.cursor === undefined ? null : Number(decodeCursor(query.cursor, ['number'])[0]),
      })
      const { page, next_cursor } = pageOf(rows, query.limit, ({ id }) => [id])
      return { status: 200, json: { entries: page.map(toEntry), next_cursor } }
    },
  }),
]

const toEntry = (row: AuditRow): z.infer<typeof Entry> => ({
  id: row.id,
  ts: new Date(row.ts).toISOString(),
  request_id: row.requestId,
  event: row.event,
  tenant: row.tenant,
  caller: row.caller,
  actor: row.actor,
  thread_id: row.threadId,
  session_id: row.sessionId,
  sandbox_id: row.sandboxId,
  outcome: row.outcome,
  code: row.code,
  ip: row.ip,
  token_hash: row.tokenHash,
  data: row.data,
})
