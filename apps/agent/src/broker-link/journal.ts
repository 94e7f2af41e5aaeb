import { JOURNAL_BATCH, type JournalEntry, type JournalFact } from '@boxoffice/protocol'
import { Counter, type Registry } from 'prom-client'

/** What it is about; null where that is not known. */
export type JournalSubject = { sessionId: string | null; sandboxId: string | null }

/**
 * What has happened on this agent and the broker has not acknowledged. In memory only: after a crash the ends of processes are
 * read from their supervisors again, the rest is lost.
 */
export interface Journal {
  write(subject: JournalSubject, fact: JournalFact, ageMs?: number): void
  /** The oldest that are not acknowledged. */
  batch(): JournalEntry[]
  acknowledge(seq: number): void
  /** The number of the sandbox's last event, if that is not acknowledged. */
  lastOf(sandboxId: string): number | undefined
  readonly isEmpty: boolean
  /** Called when something has been written that somebody may be waiting for. */
  onUrgent(listener: () => void): void
  /** Counts what was not written because its source has said too much. */
  countSuppressed(): void
}

/** Apart, so that a flood of accesses pushes out no end of a process. */
const ROOM = { event: 5000, access: 1000 }

type Kept = { at: number; entry: Omit<JournalEntry, 'age_ms'> }

export const createJournal = (metrics: Registry, now: () => number = () => performance.now()): Journal => {
  const queues: Record<keyof typeof ROOM, Kept[]> = { event: [], access: [] }
  const listeners = new Set<() => void>()
  const dropped = new Counter({
    name: 'boxoffice_agent_journal_dropped_total',
    help: 'What happened and was not told to the broker: the journal was full, or its source said too much',
    labelNames: ['reason'],
    registers: [metrics],
  })
  let seq = 0

  return {
    write({ sessionId, sandboxId }, { type, data, ...rest }, ageMs = 0) {
      const kind = type === 'dataplane.open' || type === 'dataplane.refused' ? 'access' : 'event'
      const queue = queues[kind]
      queue.push({
        at: now() - Math.max(0, ageMs),
        entry: { seq: ++seq, type, session_id: sessionId, sandbox_id: sandboxId, data, ...rest },
      })
      if (queue.length > ROOM[kind]) {
        queue.shift()
        dropped.labels('full').inc()
      }
      if (kind === 'event') for (const listener of listeners) listener()
    },
    batch() {
      const { event, access } = queues
      const oldest = [...event.slice(0, JOURNAL_BATCH), ...access.slice(0, JOURNAL_BATCH)].sort((a, b) => a.entry.seq - b.entry.seq)
      return oldest.slice(0, JOURNAL_BATCH).map(({ at, entry }) => ({ ...entry, age_ms: Math.max(0, now() - at) }))
    },
    acknowledge(stored) {
      for (const queue of Object.values(queues)) {
        const rest = queue.findIndex(({ entry }) => entry.seq > stored)
        queue.splice(0, rest === -1 ? queue.length : rest)
      }
    },
    lastOf: (sandboxId) => queues.event.findLast(({ entry }) => entry.sandbox_id === sandboxId)?.entry.seq,
    get isEmpty() {
      return queues.event.length === 0 && queues.access.length === 0
    },
    onUrgent(listener) {
      listeners.add(listener)
    },
    countSuppressed: () => dropped.labels('rate').inc(),
  }
}
