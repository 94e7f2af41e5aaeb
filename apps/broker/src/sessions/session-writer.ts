import type { AuditEntry } from '../domain/audit-entry.ts'
import { type SessionEffect, type SessionEvent, transition } from '../domain/lifecycle.ts'
import { isLive, isPlaced, type Session } from '../domain/session.ts'
import { eventsOf, type NewSessionEvent } from '../domain/session-event.ts'
import { workspaceAfter } from '../domain/workspace.ts'
import type { SaveOptions } from '../store/session-store.ts'
import type { Store } from '../store/store.ts'
import type { SessionEffects } from './effects.ts'

export type ChangeOptions = Omit<SaveOptions, 'audit' | 'events' | 'eventsWaitUntil' | 'workspace'> & {
  /** Entries for the session as it becomes, which may be as it was; called again when another writer was faster. */
  audit?: (after: Session, before: Session) => AuditEntry[]
  /** Why the event happens, looked at anew before each try to save it: false leaves the session as it is. `before`: as it is then. */
  stillHolds?: (before: Session) => Promise<boolean>
  /** Events beyond those that every change of its kind has. */
  events?: (before: Session, after: Session) => NewSessionEvent[]
}

/** `refused` is set when the event is illegal in the session's state; `session` is then what it is now. */
export type Change = { session: Session; refused?: string }

/** Two brokers and a reaper may meet on one row; each lost round means that somebody else's change got through. */
const ROUNDS = 100

/** How long the last events of a session wait for its agent, beyond what its commands have to end [contract 2.4]. */
const ANSWERS_WITHIN_MS = 10_000

/** Loads, transitions, saves with compare-and-swap, performs effects: the only way a session changes. */
export class SessionWriter {
  readonly #store: Store
  readonly #effects: SessionEffects
  readonly #now: () => number

  constructor(store: Store, effects: SessionEffects, now: () => number) {
    this.#store = store
    this.#effects = effects
    this.#now = now
  }

  /** The session as it is by the clock: the reaper may be a second late, the hard TTL is not [4-92]. */
  async current(session: Session): Promise<Session> {
    if (!isLive(session) || this.#now() < session.hardExpiresAt) return session
    return (await this.change(session, { type: 'tick', suspend: [] })).session
  }

  /** Carries out an effect once more that an earlier change has asked for. */
  perform(session: Session, effect: SessionEffect): void {
    this.#effects.perform(session, effect, (refused) => this.change(refused, { type: 'suspend_refused' }))
  }

  async change(session: Session, event: SessionEvent, { audit, events, stillHolds, ...options }: ChangeOptions = {}): Promise<Change> {
    let before = session
    for (let round = 0; round < ROUNDS; round++) {
      if (stillHolds !== undefined && !(await stillHolds(before))) return { session: before }
      const step = transition(before, event, this.#now())
      if (step.refused !== undefined) return { session: before, refused: step.refused }
      const after = step.session
      const entries = audit?.(after, before) ?? []
      if (after === before) {
        if (entries.length > 0) await this.#store.audit.append(entries)
        return { session: before }
      }
      const allEvents = [...eventsOf(before, after, this.#now()), ...(events?.(before, after) ?? [])]
      // What the agent has still to tell comes before the last events.
      const waits = isPlaced(before) && step.effects.some(({ type }) => type === 'destroy')
      const eventsWaitUntil = waits ? this.#now() + ANSWERS_WITHIN_MS + before.profile.end_grace_seconds * 1000 : null
      const written = { ...options, audit: entries, events: allEvents, eventsWaitUntil, workspace: workspaceAfter(before, after) }
      if (await this.#store.sessions.save(before, after, written)) {
        for (const effect of step.effects) this.perform(after, effect)
        return { session: { ...after, revision: before.revision + 1 } }
      }
      const now = await this.#store.sessions.byId(before.id)
      if (now === undefined) return { session: before, refused: 'the session is gone' }
      before = now
    }
    throw new Error(`session ${session.id} changed ${ROUNDS} times while it was being saved`)
  }
}
