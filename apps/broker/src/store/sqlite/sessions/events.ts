import { KEPT_EVENTS } from '@boxoffice/protocol'
import type { NewSessionEvent } from '../../../domain/session-event.ts'
import type { EventStore } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'

/**
 * Inside a transaction: adds events to the change that they tell of; with `recovered` those that are not there yet, with `gap` after
 * an id that is left out for what nobody has told. Gives how many.
 */
export type AppendEvents = (
  sessionId: string,
  events: readonly NewSessionEvent[],
  options?: { recovered?: boolean; gap?: boolean },
) => number

/** Two ends of one process, told by two instances of an agent, are no further apart than this; ids are reused after 600 s. */
const SAME_END_MS = 300_000

/** `committed` is to be called after each commit: it tells the listeners what `append` has added. */
export function sqliteEvents(db: Db): { store: EventStore; append: AppendEvents; committed: () => void } {
  const last = db.prepare<[string]>('SELECT max(id) FROM session_events WHERE session_id = ?').pluck()
  const first = db.prepare<[string], { id: number; ts: number }>(
    'SELECT id, ts FROM session_events WHERE session_id = ? ORDER BY id LIMIT 1',
  )
  const insert = db.prepare('INSERT INTO session_events (session_id, id, ts, type, data) VALUES (?, ?, ?, ?, ?)')
  const trim = db.prepare('DELETE FROM session_events WHERE session_id = ? AND id <= ?')
  const same = db.prepare<[string, string, string, number, number]>(
    'SELECT 1 FROM session_events WHERE session_id = ? AND type = ? AND data = ? AND ts BETWEEN ? AND ?',
  )
  const after = db.prepare<[string, number, number], { id: number; ts: number; type: string; data: string }>(
    'SELECT id, ts, type, data FROM session_events WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?',
  )
  const dataVersion = db.prepare('PRAGMA data_version').pluck()
  const listeners = new Set<(sessionId: string) => void>()
  const appended = new Set<string>()
  let seen = dataVersion.get()

  /** The same end told before; or so old that it may have been, and be kept no longer. */
  const isKnown = (sessionId: string, event: NewSessionEvent, data: string): boolean => {
    if (same.get(sessionId, event.type, data, event.ts - SAME_END_MS, event.ts + SAME_END_MS) !== undefined) return true
    const oldest = first.get(sessionId)
    return oldest !== undefined && oldest.id > 1 && event.ts < oldest.ts
  }

  const append: AppendEvents = (sessionId, events, { recovered = false, gap = false } = {}) => {
    if (events.length === 0) return 0
    const before = (last.get(sessionId) as number | null) ?? 0
    let id = before + (gap ? 1 : 0)
    let added = 0
    for (const event of events) {
      const data = JSON.stringify(event.data)
      if (recovered && isKnown(sessionId, event, data)) continue
      insert.run(sessionId, ++id, event.ts, event.type, data)
      added++
    }
    if (id > KEPT_EVENTS) trim.run(sessionId, id - KEPT_EVENTS)
    appended.add(sessionId)
    return added
  }

  return {
    append,
    committed() {
      if (appended.size === 0) return
      const ids = [...appended]
      appended.clear()
      for (const id of ids) for (const listener of listeners) listener(id)
    },
    store: {
      after: async (sessionId, id, limit) => after.all(sessionId, id, limit),
      last: async (sessionId) => (last.get(sessionId) as number | null) ?? 0,
      onAppended(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
      // Another connection has committed since the last call; one's own commits do not count.
      changedElsewhere: async () => {
        const now = dataVersion.get()
        const changed = now !== seen
        seen = now
        return changed
      },
    },
  }
}
