/** One line of the audit log [C-72]; append-only, committed with the change that it records. `tokenHash` is never the token. */
export type AuditEntry = {
  /** Milliseconds, the broker's clock. */
  ts: number
  requestId: string | null
  event: AuditEvent
  tenant: string | null
  caller: string | null
  actor: string | null
  threadId: string | null
  sessionId: string | null
  sandboxId: string | null
  outcome: 'ok' | 'refused' | 'failed'
  code: string | null
  ip: string | null
  tokenHash: string | null
  /** What the event tells beyond these; never a secret. */
  data: Readonly<Record<string, unknown>> | null
}

export type AuditEvent =
  | 'sandbox.session.acquire'
  | 'sandbox.session.create'
  | 'sandbox.session.active'
  | 'sandbox.session.refresh'
  | 'sandbox.session.read'
  | 'sandbox.session.release'
  | 'sandbox.session.suspend'
  | 'sandbox.session.end'
  | 'sandbox.session.fail'
  | 'sandbox.session.takeover'
  | 'sandbox.session.remake'
  | 'sandbox.members.set'
  | 'sandbox.egress.set'
  | 'sandbox.port.expose'
  | 'sandbox.port.withdraw'
  | 'sandbox.port.link'
  | 'sandbox.port.enter'
  | 'sandbox.thread.delete'
  | 'key.create'
  | 'key.revoke'
  | 'signing_key.rotate'
  | 'secret.set'
  | 'secret.remove'
  | 'agent.register'
  | 'agent.rekey'
  | 'enroll_token.create'
  | 'enroll_token.revoke'
  | 'access.refused'
  | 'dataplane.open'
  | 'dataplane.refused'
  | 'exec.exit'
  | 'process.exit'

export type AuditRow = AuditEntry & { id: number }

export type AuditFilter = {
  /** Null: every tenant, and what belongs to none. */
  tenant: string | null
  event: string | null
  sessionId: string | null
  threadId: string | null
  caller: string | null
  since: number | null
  until: number | null
  limit: number
  /** Rows older than this id. */
  before: number | null
}

/** Who did it, as far as a request tells; the fields that every entry of one request shares. */
export type Origin = {
  requestId: string | null
  tenant: string | null
  caller: string | null
  actor: string | null
  ip: string | null
}

/** What the broker does by itself (reaper, agents' reports). */
export const systemOrigin = (tenant: string | null): Origin => ({ requestId: null, tenant, caller: 'system', actor: null, ip: null })

const NOTHING = { threadId: null, sessionId: null, sandboxId: null, outcome: 'ok', code: null, tokenHash: null, data: null } as const

export const auditEntry = (
  event: AuditEvent,
  origin: Origin,
  fields: Partial<Omit<AuditEntry, 'event' | keyof Origin>> & { ts: number },
): AuditEntry => ({ ...NOTHING, ...origin, event, ...fields })
