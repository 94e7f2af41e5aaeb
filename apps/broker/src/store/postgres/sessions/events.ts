import { KEPT_EVENTS } from '@boxoffice/protocol'
import type { NewSessionEvent } from '../../../domain/session-event.ts'
import type { EventStore, SessionEventRow } from '../../session-store.ts'
import type { Sql, Transaction } from '../engine/database.ts'
import { lockSessions } from '../engine/locks.ts'

export type AppendOptions = { recovered?: boolean; gap?: boolean }

/** Two ends of one process, told by two instances of an agent, are no further apart than this; ids are reused after 600 s. */
const SAME_END_MS = 300_000

/** The events of the parameters from this one on, in their order: `eventValues` gives the three. */
export const eventRows = (parameter: number): string =>
  `unnest($${parameter}::bigint[], $${parameter + 1}::text[], $${parameter + 2}::text[]) WITH ORDINALITY AS event (ts, type, data, n)`

export const eventValues = (events: readonly NewSessionEvent[]): unknown[] => [
  events.map(({ ts }) => ts),
  events.map(({ type }) => type),
  events.map(({ data }) => JSON.stringify(data)),
]

/** Deletes what the session in `numbered`, with its latest id, has beyond the events that are kept; for a `WITH`. */
export const eventTrim = (numbered: string): string =>
  `DELETE FROM session_events kept USING ${numbered} WHERE kept.session_id = ${numbered}.id AND kept.id <= ${numbered}.event_seq - ${KEPT_EVENTS}`

// The ids are taken in the session's row, so that two writers never take the same ones.
const APPEND = `
  WITH numbered AS (UPDATE sessions SET event_seq = event_seq + $2 WHERE id = $1 RETURNING id, event_seq),
  trimmed AS (${eventTrim('numbered')})
  INSERT INTO session_events (session_id, id, ts, type, data)
  SELECT numbered.id, numbered.event_seq - $3 + event.n, event.ts, event.type, event.data FROM numbered, ${eventRows(4)}`

/**
 * Adds events to the change that they tell of; with `recovered` those that are not there yet, with `gap` after an id that is left out
 * for what nobody has told. Gives how many.
 */
export async function appendEvents(
  tx: Transaction,
  sessionId: string,
  events: readonly NewSessionEvent[],
  { recovered = false, gap = false }: AppendOptions = {},
): Promise<number> {
  if (events.length === 0) return 0
  const added = recovered ? await unknownOf(tx, sessionId, events) : events
  if (added.length === 0) return 0
  const count = await tx.run(APPEND, [sessionId, added.length + (gap ? 1 : 0), added.length, ...eventValues(added)])
  tx.appended(sessionId)
  return count
}

const OLDEST = 'SELECT id, ts FROM session_events WHERE session_id = $1 ORDER BY id LIMIT 1'
const SAME = 'SELECT ts FROM session_events WHERE session_id = $1 AND type = $2 AND data = $3 AND ts BETWEEN $4 AND $5 LIMIT 1'

/** Those that were not told before, and are not so old that they may have been and are kept no longer. */
async function unknownOf(tx: Transaction, sessionId: string, events: readonly NewSessionEvent[]): Promise<NewSessionEvent[]> {
  await lockSessions(tx, [sessionId])
  const [oldest] = await tx.rows<{ id: number; ts: number }>(OLDEST, [sessionId])
  const unknown: NewSessionEvent[] = []
  for (const event of events) {
    if (oldest !== undefined && oldest.id > 1 && event.ts < oldest.ts) continue
    if (unknown.some((other) => isSame(other, event))) continue
    const values = [sessionId, event.type, JSON.stringify(event.data), event.ts - SAME_END_MS, event.ts + SAME_END_MS]
    if ((await tx.rows(SAME, values)).length === 0) unknown.push(event)
  }
  return unknown
}

const isSame = (one: NewSessionEvent, other: NewSessionEvent): boolean =>
  one.type === other.type && Math.abs(one.ts - other.ts) <= SAME_END_MS && JSON.stringify(one.data) === JSON.stringify(other.data)

export const readEvents = (read: Sql): Pick<EventStore, 'after' | 'last'> => ({
  after: (sessionId, id, limit) =>
    read.rows<SessionEventRow>('SELECT id, ts, type, data FROM session_events WHERE session_id = $1 AND id > $2 ORDER BY id LIMIT $3', [
      sessionId,
      id,
      limit,
    ]),
  last: async (sessionId) => {
    const [row] = await read.rows<{ id: number | null }>('SELECT max(id) AS id FROM session_events WHERE session_id = $1', [sessionId])
    return row?.id ?? 0
  },
})
