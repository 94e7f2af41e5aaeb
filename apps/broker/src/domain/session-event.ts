import type { SessionEventData, SessionEventType } from '@boxoffice/protocol'
import { isLive, isPlaced, type Session, type SuspendMode } from './session.ts'

/** An event before the store gives it its number. */
export type NewSessionEvent<T extends SessionEventType = SessionEventType> = {
  /** Milliseconds, the broker's clock. */
  ts: number
  type: T
  data: SessionEventData<T>
}

/** What a change of a session tells those who follow it; null before it was made. Without I/O. */
export function eventsOf(before: Session | null, after: Session, now: number): NewSessionEvent[] {
  const events: NewSessionEvent[] = []
  const tell = <T extends SessionEventType>(type: T, data: SessionEventData<T>): void => void events.push({ ts: now, type, data })
  if (before === null || before.state !== after.state || modeOf(before) !== modeOf(after)) {
    const reason = isLive(after) ? null : after.reason
    tell('state', { state: after.state, previous: before?.state ?? null, mode: modeOf(after), reason })
  }
  if (isReleased(after) && (before === null || !isReleased(before))) tell('released', {})
  if (isPlaced(after) && leaseMoved(before, after)) tell('lease', { lease_expires_at: new Date(after.leaseExpiresAt).toISOString() })
  return events
}

/** A heartbeat tells the lease that it gives, at most once a second. */
export function heartbeatEvent(before: Session, after: Session, now: number): NewSessionEvent[] {
  if (leaseMoved(before, after) || Math.floor(before.leaseExpiresAt / 1000) === Math.floor(after.leaseExpiresAt / 1000)) return []
  return [{ ts: now, type: 'lease', data: { lease_expires_at: new Date(after.leaseExpiresAt).toISOString() } }]
}

/**
 * `ensure` moves the lease at each call, and must not write an event each time: the lease is told when it becomes a tenth of
 * `lease_seconds` longer than the last mark, so at most ten times in its length.
 */
function leaseMoved(before: Session | null, after: Session): boolean {
  if (before === null || !isPlaced(before)) return true
  const step = Math.max(1000, after.profile.lease_seconds * 100)
  return Math.floor(before.leaseExpiresAt / step) !== Math.floor(after.leaseExpiresAt / step)
}

const modeOf = (session: Session): SuspendMode | null => (session.state === 'suspended' ? session.mode : null)

const isReleased = (session: Session): boolean => session.state === 'terminated' && session.reason === 'released'
