import { EVENT_DATA, JOURNAL_DATA, type JournalEntry } from '@boxoffice/protocol'
import { type AuditEntry, auditEntry, systemOrigin } from '../domain/audit-entry.ts'
import { threadOf } from '../domain/scope.ts'
import { placedOf, type Session } from '../domain/session.ts'
import type { NewSessionEvent } from '../domain/session-event.ts'
import type { JournalRecord } from '../store/session-store.ts'
import type { AgentRecord, Store } from '../store/store.ts'

export type JournalIntakeOptions = { store: Store; now: () => number }

/** Turns what an agent has told into events and audit entries; what it may not say, or nobody here knows, is passed over. */
export class JournalIntake {
  readonly #options: JournalIntakeOptions

  constructor(options: JournalIntakeOptions) {
    this.#options = options
  }

  /** Gives the number up to which the journal of this instance is stored. */
  async accept(agent: AgentRecord, entries: readonly JournalEntry[]): Promise<number> {
    const { store, now } = this.#options
    const sessions = new Map<string, Session | undefined>()
    for (const { session_id: id } of entries) if (id !== null && !sessions.has(id)) sessions.set(id, await store.sessions.byId(id))
    const records = entries.map((entry) => {
      const session = entry.session_id === null ? undefined : sessions.get(entry.session_id)
      const allowed = entry.session_id === null || (session !== undefined && isOn(session, agent, entry.sandbox_id))
      return allowed ? toRecord(entry, session, agent, now()) : nothing(entry)
    })
    return store.journal.accept(agent.id, agent.instanceId, records, now())
  }
}

/** An agent speaks for its own sandboxes only. */
function isOn(session: Session, agent: AgentRecord, sandboxId: string | null): boolean {
  if (session.agentId !== agent.id) return false
  const placed = placedOf(session)
  return placed === null || placed.sandboxId === sandboxId
}

const nothing = ({ seq }: JournalEntry): JournalRecord => ({ seq, sessionId: null, recovered: false, events: [], audit: [] })

function toRecord(entry: JournalEntry, session: Session | undefined, agent: AgentRecord, now: number): JournalRecord {
  const ts = Math.round(Math.max(session?.createdAt ?? 0, now - entry.age_ms))
  const where = {
    ts,
    threadId: session === undefined ? null : threadOf(session.scope),
    sessionId: session?.id ?? null,
    sandboxId: entry.sandbox_id,
  }
  const record = (events: NewSessionEvent[], audit: AuditEntry[]): JournalRecord => ({
    seq: entry.seq,
    sessionId: session?.id ?? null,
    recovered: entry.recovered ?? false,
    events: session === undefined ? [] : events,
    audit,
  })
  switch (entry.type) {
    case 'wake':
    case 'egress': {
      const { data } = EVENT_DATA[entry.type].safeParse(entry.data)
      return data === undefined ? nothing(entry) : record([{ ts, type: entry.type, data } as NewSessionEvent], [])
    }
    case 'exec.exit':
    case 'process.exit': {
      const { data } = EVENT_DATA[entry.type].safeParse(entry.data)
      if (data === undefined) return nothing(entry)
      // What the product ended, the audit log has as well [C-53].
      const system = systemOrigin(session?.tenant ?? null)
      const audit = data.kill_cause === null ? [] : [auditEntry(entry.type, system, { ...where, code: data.kill_cause, data })]
      return record([{ ts, type: entry.type, data }], audit)
    }
    case 'dataplane.open':
    case 'dataplane.refused': {
      const { data } = JOURNAL_DATA[entry.type].safeParse(entry.data)
      if (data === undefined) return nothing(entry)
      const { request_id: requestId, sub, ip, token_hash: tokenHash, ...rest } = data
      const { code = null, ...more } = { code: undefined, ...rest }
      const origin = { requestId, tenant: session?.tenant ?? null, caller: sub, actor: sub, ip }
      const outcome = entry.type === 'dataplane.open' ? 'ok' : 'refused'
      return record([], [auditEntry(entry.type, origin, { ...where, outcome, code, tokenHash, data: { ...more, agent_id: agent.id } })])
    }
    default:
      return nothing(entry)
  }
}
