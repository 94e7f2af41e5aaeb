import type { EndedSession } from '../../../domain/session.ts'
import type { NewSessionEvent } from '../../../domain/session-event.ts'
import type { EndingStore } from '../../session-store.ts'
import type { Database, Sql, Transaction } from '../engine/database.ts'
import { lockJournal, lockSessions } from '../engine/locks.ts'
import { appendEvents } from './events.ts'
import { placeInJournal } from './place-in-journal.ts'

type Ending = { session_id: string; agent_id: string; events: string }

const DUE_AT_ONCE = 200

const ONE = 'SELECT session_id, agent_id, events FROM session_endings WHERE session_id = $1'

export async function isPendingEnding(sql: Sql, sessionId: string): Promise<boolean> {
  return (await sql.rows(ONE, [sessionId])).length > 0
}

/**
 * In the transaction that ends the session, whose row it has: keeps the events until `waitUntil`, or with those that are kept of the
 * session already; false when they are to be appended now.
 */
export async function keepEnding(
  tx: Transaction,
  session: EndedSession,
  events: readonly NewSessionEvent[],
  waitUntil: number | null,
): Promise<boolean> {
  const [kept] = await tx.rows<Ending>(ONE, [session.id])
  if (kept !== undefined) {
    const all = [...(JSON.parse(kept.events) as NewSessionEvent[]), ...events]
    await tx.run('UPDATE session_endings SET events = $1 WHERE session_id = $2', [JSON.stringify(all), session.id])
    return true
  }
  if (waitUntil === null) return false
  const values = [session.id, session.agentId, waitUntil, JSON.stringify(events)]
  await tx.run('INSERT INTO session_endings (session_id, agent_id, due_at, events) VALUES ($1, $2, $3, $4)', values)
  return true
}

/** In a transaction that has the journal's lock: the journal of this instance is stored up to `seq`; appends what has waited for that. */
export async function tellEndings(tx: Transaction, agentId: string, instanceId: string, seq: number): Promise<void> {
  const reached = 'agent_id = $1 AND instance_id = $2 AND journal_seq <= $3'
  const values = [agentId, instanceId, seq]
  const found = await tx.rows<Ending>(`SELECT session_id FROM session_endings WHERE ${reached}`, values)
  if (found.length === 0) return
  await lockSessions(
    tx,
    found.map(({ session_id: id }) => id),
  )
  await finish(tx, await tx.rows<Ending>(`DELETE FROM session_endings WHERE ${reached} RETURNING session_id, events`, values))
}

/** Whoever has deleted an ending appends its events. */
async function finish(tx: Transaction, endings: readonly Ending[], gap = false): Promise<void> {
  for (const { session_id: id, events } of endings) await appendEvents(tx, id, JSON.parse(events) as NewSessionEvent[], { gap })
}

export function postgresEndings({ read, once, write }: Database): EndingStore {
  return {
    isPending: (sessionId) => isPendingEnding(read, sessionId),
    async answered(sessionId, untold) {
      const [pending] = await read.rows<Ending>(ONE, [sessionId])
      if (pending === undefined) return
      await write(async (tx) => {
        // So that the journal does not move between the look at it and the note of what is waited for.
        if (untold !== undefined) await lockJournal(tx, pending.agent_id, untold.instanceId)
        await lockSessions(tx, [sessionId])
        const stored = untold === undefined ? 0 : ((await placeInJournal(tx, pending.agent_id, untold.instanceId)) ?? 0)
        if (untold !== undefined && stored < untold.seq)
          await tx.run('UPDATE session_endings SET instance_id = $1, journal_seq = $2 WHERE session_id = $3', [
            untold.instanceId,
            untold.seq,
            sessionId,
          ])
        else
          await finish(
            tx,
            await tx.rows<Ending>('DELETE FROM session_endings WHERE session_id = $1 RETURNING session_id, events', [sessionId]),
          )
      })
    },
    async resume(until) {
      await once.run('UPDATE session_endings SET due_at = $1 WHERE due_at < $1', [until])
      const rows = await read.rows<Ending>('SELECT session_id FROM session_endings WHERE instance_id IS NULL')
      return rows.map(({ session_id: id }) => id)
    },
    async finishDue(now) {
      for (;;) {
        const due = await read.rows<Ending>('SELECT session_id FROM session_endings WHERE due_at <= $1 ORDER BY session_id LIMIT $2', [
          now,
          DUE_AT_ONCE,
        ])
        if (due.length === 0) return
        const ids = due.map(({ session_id: id }) => id)
        await write(async (tx) => {
          await lockSessions(tx, ids)
          const late = await tx.rows<Ending>(
            'DELETE FROM session_endings WHERE session_id = ANY($1) AND due_at <= $2 RETURNING session_id, events',
            [ids, now],
          )
          await finish(tx, late, true)
        })
      }
    },
  }
}
