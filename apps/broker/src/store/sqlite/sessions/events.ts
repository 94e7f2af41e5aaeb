import { KEPT_EVENTS } from '@boxoffice/protocol'
import type { NewSessionEvent } from '../../../domain/session-event.ts'
import type { EventStore } from '../../session-store.ts'
import { Watchers } from '../../watchers.ts'
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

/**
 * `committed` is to be called after each commit: it tells those who watch what `append` has added. What another broker has committed is
 * looked for each `pollMs` while somebody watches.
 */
export function sqliteEvents(db: Db, pollMs: number): { store: EventStore; append: AppendEvents; committed: () => void } & Disposable {
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
  const watchers = new Watchers()
  const appended = new Set<string>()
  let seen: unknown
  let poll: NodeJS.Timeout | undefined

  /** One's own commits do not change the version. Where it cannot be read, those who are woken meet the reason. */
  const lookElsewhere = (): void => {
    let now: unknown
    try {
      now = dataVersion.get()
    } catch {
      return watchers.wakeAll()
    }
    if (now === seen) return
    seen = now
    watchers.wakeAll()
  }
  const rest = (): void => {
    clearInterval(poll)
    poll = undefined
  }

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
      for (const id of ids) watchers.wake(id)
    },
    [Symbol.dispose]: rest,
    store: {
      after: async (sessionId, id, limit) => after.all(sessionId, id, limit),
      last: async (sessionId) => (last.get(sessionId) as number | null) ?? 0,
      watch(sessionId, more) {
        if (poll === undefined) {
          seen = dataVersion.get()
          poll = setInterval(lookElsewhere, pollMs)
        }
        const leave = watchers.add(sessionId, more)
        return () => {
          leave()
          if (watchers.isEmpty) rest()
        }
      },
    },
  }
}
