import type { ActiveSession, IdleSession, Session } from '../../../domain/session.ts'
import type { Database } from '../engine/database.ts'
import { grouped } from '../engine/grouped.ts'

/** A change that only says that the session is used; see `isTouch`. */
export type Touch = { before: Session; after: ActiveSession | IdleSession }

/** Moves the times of sessions, as reports of agents tell of their use; false where the row is no longer `before`. */
export const sessionTouches = ({ once }: Pick<Database, 'once'>): ((touch: Touch) => Promise<boolean>) =>
  grouped(
    async (touches) => {
      const rows = await once.rows<{ id: string }>(TOUCH_ALL, [JSON.stringify(touches.map(toRow))])
      const touched = new Set(rows.map(({ id }) => id))
      return touches.map(({ before }) => touched.has(before.id))
    },
    { keyOf: ({ before }) => before.id },
  )

const toRow = ({ before, after }: Touch) => ({
  ...{ id: before.id, state: before.state, activated_at: after.activatedAt, generation: after.incarnation },
  ...{ last_activity_at: after.lastActivityAt, lease_expires_at: after.leaseExpiresAt },
})

// As TOUCH of session-change.ts.
const TOUCH_ALL = `UPDATE sessions s SET last_activity_at = greatest(s.last_activity_at, r.last_activity_at),
    lease_expires_at = greatest(s.lease_expires_at, r.lease_expires_at), revision = s.revision + 1
  FROM json_to_recordset($1) AS r(id text, state text, activated_at bigint, generation bigint, last_activity_at bigint, lease_expires_at bigint)
  WHERE s.id = r.id AND s.state = r.state AND s.activated_at = r.activated_at AND s.generation = r.generation
  RETURNING s.id`
