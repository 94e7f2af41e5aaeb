import { type ActiveSession, type IdleSession, isLive, type Session } from '../../../domain/session.ts'
import { CHANGING_COLUMNS, isTouch, toRow } from '../../rows/session-row.ts'
import type { SaveOptions, SessionStore } from '../../session-store.ts'
import type { Database, Transaction } from '../engine/database.ts'
import { lockScope } from '../engine/locks.ts'
import { appendAudit, auditInsert, auditJson } from '../tables/audit.ts'
import { keepEnding } from './endings.ts'
import { appendEvents, eventRows, eventTrim, eventValues } from './events.ts'
import { putGrant } from './grants.ts'
import { forgetIdempotency, putIdempotency } from './idempotency.ts'
import { sessionTouches } from './session-touches.ts'
import { settleWorkspace } from './workspaces.ts'

// The hot path of `ensure`: names no column of any index, so no index is rewritten. A sandbox that was made anew keeps its state and its
// activation, so its incarnation is compared as well. To what changes the session otherwise, the raised revision tells.
const TOUCH = `UPDATE sessions SET last_activity_at = greatest(last_activity_at, $1), lease_expires_at = greatest(lease_expires_at, $2),
    revision = revision + 1, event_seq = event_seq + $7
  WHERE id = $3 AND state = $4 AND activated_at = $5 AND generation = $6
  RETURNING id, event_seq`
const TOUCH_AND_AUDIT = `WITH touched AS (${TOUCH}) ${auditInsert(8, 'touched')}`
const TOUCH_AND_TELL = `WITH touched AS (${TOUCH}), audited AS (${auditInsert(8, 'touched')}),
  told AS (
    INSERT INTO session_events (session_id, id, ts, type, data)
    SELECT touched.id, touched.event_seq - $7 + event.n, event.ts, event.type, event.data FROM touched, ${eventRows(9)}),
  trimmed AS (${eventTrim('touched')})
  SELECT id FROM touched`

const COLUMNS = CHANGING_COLUMNS.length
const UPDATE = `UPDATE sessions SET ${CHANGING_COLUMNS.map((name, i) => `${name} = $${i + 1}`).join(', ')}, revision = revision + 1
  WHERE id = $${COLUMNS + 1} AND revision = $${COLUMNS + 2}`

/** Replaces `before` by `after`, with what belongs to the change; false when the row is no longer `before`. */
export function sessionChanges(database: Database): SessionStore['save'] {
  const touch = sessionTouches(database)
  return async (before, after, options = {}) => {
    if (isTouch(before, after) && isPlain(options))
      return isSilent(options) ? touch({ before, after }) : touchAtOnce(database, before, after, options)
    return database.write(async (tx) => {
      if (options.workspace) await lockScope(tx, after.tenant, after.scope)
      if (!(await replace(tx, before, after))) return false
      await recordChange(tx, after, options)
      return true
    })
  }
}

/** It writes nothing but the row, audit entries and events. */
const isPlain = ({ idempotency, workspace, grant, forgetIdempotency: forget }: SaveOptions): boolean =>
  !idempotency && !workspace && !grant && !forget

/** It writes no audit entries and events either. */
const isSilent = ({ audit = [], events = [] }: SaveOptions): boolean => audit.length + events.length === 0

/** In one statement, so in one round trip. */
async function touchAtOnce(
  { once, appended }: Database,
  before: Session,
  after: TouchedSession,
  { audit = [], events = [] }: SaveOptions,
): Promise<boolean> {
  const values = [...touchValues(before, after, events.length), auditJson(audit)]
  // It gives how many entries were added: some, as a change without events is not silent, or none with an untouched row.
  if (events.length === 0) return (await once.run(TOUCH_AND_AUDIT, values)) > 0
  const touched = await once.rows(TOUCH_AND_TELL, [...values, ...eventValues(events)])
  if (touched.length === 1) appended([before.id])
  return touched.length === 1
}

type TouchedSession = ActiveSession | IdleSession

const touchValues = (before: Session, after: TouchedSession, events: number): unknown[] => [
  ...[after.lastActivityAt, after.leaseExpiresAt, before.id, before.state, after.activatedAt, after.incarnation],
  events,
]

async function replace(tx: Transaction, before: Session, after: Session): Promise<boolean> {
  if (isTouch(before, after)) return (await tx.rows(TOUCH, touchValues(before, after, 0))).length === 1
  const row = toRow(after)
  const values = CHANGING_COLUMNS.map((name) => row[name as keyof typeof row])
  return (await tx.run(UPDATE, [...values, before.id, before.revision])) === 1
}

async function recordChange(tx: Transaction, after: Session, options: SaveOptions): Promise<void> {
  const { audit = [], events = [], eventsWaitUntil = null, idempotency, grant, workspace } = options
  const isKept = !isLive(after) && (await keepEnding(tx, after, events, eventsWaitUntil))
  if (!isKept) await appendEvents(tx, after.id, events)
  if (options.forgetIdempotency) await forgetIdempotency(tx, after.id)
  if (idempotency) await putIdempotency(tx, idempotency)
  if (grant) await putGrant(tx, grant)
  await appendAudit(tx, audit)
  if (workspace) await settleWorkspace(tx, after, workspace)
}
