import { type AuditEntry, type AuditEvent, auditEntry, type Origin } from './audit-entry.ts'
import { threadOf } from './scope.ts'
import { placedOf, type Session } from './session.ts'

/** What has happened to a session, with its thread and the sandbox that it has or had. */
export const sessionEntry = (
  event: AuditEvent,
  origin: Origin,
  session: Session,
  fields: Pick<AuditEntry, 'ts'> & Partial<Pick<AuditEntry, 'outcome' | 'code' | 'tokenHash' | 'data'>>,
): AuditEntry =>
  auditEntry(event, origin, {
    threadId: threadOf(session.scope),
    sessionId: session.id,
    sandboxId: placedOf(session)?.sandboxId ?? null,
    ...fields,
  })
