import type { EndedSession } from '../../../domain/session.ts'
import type { NewSessionEvent } from '../../../domain/session-event.ts'
import type { EndingStore } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendEvents } from './events.ts'

/** For other writes, inside their transactions. */
export type Endings = {
  store: EndingStore
  isPending(sessionId: string): boolean
  /** Keeps the events until `waitUntil`, or with those that are kept of the session already; false when they are to be appended now. */
  keep(session: EndedSession, events: readonly NewSessionEvent[], waitUntil: number | null): boolean
  /** The journal of this instance is stored up to `seq`: appends what has waited for that. */
  told(agentId: string, instanceId: string, seq: number): void
}

type Row = { session_id: string; agent_id: string; events: string }

const DUE_AT_ONCE = 200

/** The table has a row for each session that is just ending, so it is small and needs no further index. */
export function sqliteEndings(db: Db, write: Write, appendEvents: AppendEvents): Endings {
  const one = db.prepare<[string], Row>('SELECT session_id, agent_id, events FROM session_endings WHERE session_id = ?')
  const put = db.prepare('INSERT INTO session_endings (session_id, agent_id, due_at, events) VALUES (?, ?, ?, ?)')
  const extend = db.prepare('UPDATE session_endings SET events = ? WHERE session_id = ?')
  const waitFor = db.prepare('UPDATE session_endings SET instance_id = ?, journal_seq = ? WHERE session_id = ?')
  const remove = db.prepare('DELETE FROM session_endings WHERE session_id = ?')
  const reached = db.prepare<[string, string, number], Row>(
    'SELECT session_id, agent_id, events FROM session_endings WHERE agent_id = ? AND instance_id = ? AND journal_seq <= ?',
  )
  const due = db.prepare<[number, number], Row>('SELECT session_id, agent_id, events FROM session_endings WHERE due_at <= ? LIMIT ?')
  const postpone = db.prepare<[number, number]>('UPDATE session_endings SET due_at = ? WHERE due_at < ?')
  const unanswered = db.prepare('SELECT session_id FROM session_endings WHERE instance_id IS NULL').pluck()
  const place = db.prepare<[string, string]>('SELECT seq FROM agent_journals WHERE agent_id = ? AND instance_id = ?').pluck()

  const finish = ({ session_id: id, events }: Row, gap = false): void => {
    appendEvents(id, JSON.parse(events) as NewSessionEvent[], { gap })
    remove.run(id)
  }
  const isPending = (sessionId: string): boolean => one.get(sessionId) !== undefined

  return {
    isPending,
    keep(session, events, waitUntil) {
      const kept = one.get(session.id)
      if (kept !== undefined) extend.run(JSON.stringify([...(JSON.parse(kept.events) as NewSessionEvent[]), ...events]), session.id)
      else if (waitUntil === null) return false
      else put.run(session.id, session.agentId, waitUntil, JSON.stringify(events))
      return true
    },
    told(agentId, instanceId, seq) {
      for (const row of reached.all(agentId, instanceId, seq)) finish(row)
    },
    store: {
      isPending: async (sessionId) => isPending(sessionId),
      answered: async (sessionId, untold) => {
        if (!isPending(sessionId)) return
        await write.vital(() => {
          const row = one.get(sessionId)
          if (row === undefined) return
          const stored = untold && (place.get(row.agent_id, untold.instanceId) as number | undefined)
          if (untold === undefined || (stored ?? 0) >= untold.seq) finish(row)
          else waitFor.run(untold.instanceId, untold.seq, sessionId)
        })
      },
      resume: async (until) => {
        await write.vital(() => void postpone.run(until, until))
        return unanswered.all() as string[]
      },
      finishDue: async (now) => {
        while (due.all(now, 1).length > 0)
          await write.vital(() => {
            for (const row of due.all(now, DUE_AT_ONCE)) finish(row, true)
          })
      },
    },
  }
}
