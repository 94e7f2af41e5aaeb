import type { AgentInstructions, SandboxReport } from '@boxoffice/protocol'
import { systemOrigin } from '../domain/audit-entry.ts'
import { isLive, isPlaced, type PlacedSession, type Session } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { Log } from '../host/log.ts'
import type { SessionEffects } from '../sessions/effects.ts'
import type { ChangeOptions, SessionWriter } from '../sessions/session-writer.ts'
import type { AgentRecord, Store } from '../store/store.ts'

export type InventoryOptions = { store: Store; writer: SessionWriter; effects: SessionEffects; log: Log; now: () => number }

type Decisions = AgentInstructions['decisions']

/** A session this young may be missing from a report that was already on its way when its sandbox was made. */
const YOUNG_MS = 10_000
/**
 * For so long after a registration a complete report that knows none of the agent's earlier sessions is not believed: it may be of an
 * instance elsewhere, or of a data directory that is not the one. The next complete report after it decides.
 */
const DOUBT_MS = 10_000
/** Activity is written when it moved by more than this; the timers it feeds are minutes long. */
const ACTIVITY_STEP_MS = 1000
const BUSY_STEP_MS = 10_000

/** Compares what an agent has with what the broker knows: keep or destroy, lost, active [4-95, C-78]. */
export class Inventory {
  readonly #options: InventoryOptions

  constructor(options: InventoryOptions) {
    this.#options = options
  }

  /** `complete`: the report lists all sandboxes, so a session whose sandbox is not in it has lost it. */
  async reconcile(agent: AgentRecord, reports: readonly SandboxReport[], complete: boolean): Promise<Decisions> {
    const { store, writer, log, now } = this.#options
    const decisions: Decisions = []
    // Before anything is written: what follows may take long, and the report gets no younger by it.
    const readAt = now()
    // Only a complete report is compared with all sessions of the agent; one of a few sandboxes costs no more with many sessions.
    const placed = byId(complete ? await store.agentSessions.placedOn([agent.id]) : [])
    const others = await this.#others(reports, placed)
    const earlier = [...placed.values()].filter(({ activatedAt }) => activatedAt < agent.registeredAt)
    for (const report of reports) {
      if (report.session_id === null) {
        decisions.push({ sandbox_id: report.sandbox_id, action: 'keep' })
        continue
      }
      const session: Session | undefined = placed.get(report.session_id) ?? others.get(report.session_id)
      const keep = session !== undefined && belongs(session, agent, report)
      const lost = report.state === 'lost'
      const isKept = keep && !lost
      const workspace = keepsWorkspace(session, agent) ? { keep_workspace: true } : {}
      const again = isKept && !agrees(session, report) ? { again: true } : {}
      decisions.push({ sandbox_id: report.sandbox_id, action: isKept ? 'keep' : 'destroy', ...workspace, ...again })
      if (!keep || !isPlaced(session)) continue
      placed.delete(session.id)
      if (isKept && lacksEgress(session, report)) writer.perform(session, { type: 'tell_egress' })
      await (lost ? this.lost(session, report.reason ?? 'sandbox_lost', { gone: report.gone ?? false }) : this.#activity(session, report))
    }
    if (!complete) return decisions
    const inDoubt = Math.abs(readAt - agent.registeredAt) < DOUBT_MS && earlier.every(({ id }) => placed.has(id))
    const held = new Set(inDoubt ? earlier : [])
    if (held.size > 0)
      log.warn(
        { agent_id: agent.id, instance_id: agent.instanceId, sessions: held.size },
        "a newly registered agent has none of its earlier sessions' sandboxes; they fail if a later report says so, too",
      )
    for (const session of placed.values())
      if (!held.has(session) && readAt - session.activatedAt > YOUNG_MS) await this.lost(session, 'sandbox_missing')
    return decisions
  }

  /** Has the agent remove, in the background, the workspaces that nobody wants any more. */
  removeWorkspaces(agent: AgentRecord): void {
    this.#options.effects.removeWorkspaces(agent)
  }

  /** What else a report tells of: of a few sandboxes each of their sessions, of all of them those that are not placed (any more). */
  async #others(reports: readonly SandboxReport[], placed: ReadonlyMap<string, Session>): Promise<ReadonlyMap<string, Session>> {
    const ids = reports.flatMap(({ session_id: id }) => (id === null || placed.has(id) ? [] : id))
    return byId(ids.length === 0 ? [] : await this.#options.store.sessions.byIds(ids))
  }

  /** Fails a session whose sandbox is gone [C-78], unless that no longer holds when it is to be saved. */
  async lost(
    session: PlacedSession,
    reason: string,
    { gone = false, stillHolds }: { gone?: boolean } & Pick<ChangeOptions, 'stillHolds'> = {},
  ): Promise<void> {
    const fields = { ts: this.#options.now(), outcome: 'failed', code: 'SANDBOX_LOST' } as const
    // Whoever was faster, by a release or by the same finding, has said how it ended.
    const audit = (after: Session, before: Session) =>
      after === before ? [] : [sessionEntry('sandbox.session.fail', systemOrigin(session.tenant), after, fields)]
    await this.#options.writer.change(session, { type: 'sandbox_lost', reason, gone }, { audit, ...(stillHolds && { stillHolds }) })
  }

  async #activity(session: PlacedSession, report: SandboxReport): Promise<void> {
    const { writer, now } = this.#options
    const { activity } = report
    const at = Math.round(now() - activity.idle_ms)
    const busy = activity.running > 0 || activity.attached > 0
    if (session.state === 'suspended') {
      // One that was suspended on request reads so from a second later on: until then a report may be older.
      const used = now() >= session.suspendedAt && (busy || at > session.suspendedAt)
      // The broker ended between its decision and the call, or the agent did: say it again.
      if (!used && report.state === 'running' && now() - session.suspendedAt > YOUNG_MS)
        writer.perform(session, { type: 'suspend', mode: session.mode })
      if (!used) return
      await writer.change(session, { type: 'activity', at, busy })
    } else {
      const moved =
        busy !== session.busy || at > session.lastActivityAt + ACTIVITY_STEP_MS || (busy && now() - session.lastActivityAt > BUSY_STEP_MS)
      if (moved) await writer.change(session, { type: 'activity', at, busy })
    }
    // It was suspended after it was used, or by a call that came later than the one of another broker that woke it.
    if (isSuspended(report)) writer.perform(session, { type: 'resume' })
  }
}

const byId = <T extends Session>(sessions: readonly T[]): Map<string, T> => new Map(sessions.map((session) => [session.id, session]))

/** Released with `keep_workspace`, and the agent could not be told then. */
const keepsWorkspace = (session: Session | undefined, agent: AgentRecord): boolean =>
  session !== undefined && !isLive(session) && session.agentId === agent.id && session.keepWorkspace

/**
 * Whether nothing is under way between a session and its sandbox: it has its place, is suspended exactly where the session is, and its
 * egress is the session's. Until then a report may be older than an order, or the order has not come through.
 */
const agrees = (session: Session, report: SandboxReport): boolean =>
  isPlaced(session) && (session.state === 'suspended') === isSuspended(report) && !lacksEgress(session, report)

const isSuspended = ({ state }: SandboxReport): boolean => state === 'frozen' || state === 'stopped'

/** The agent has not heard of the last change of its egress. */
const lacksEgress = ({ egress }: PlacedSession, { egress_revision: revision }: SandboxReport): boolean =>
  egress !== null && revision !== undefined && revision < egress.revision

/** A sandbox stays as long as a live session of this agent means exactly it. */
function belongs(session: Session, agent: AgentRecord, report: SandboxReport): boolean {
  if (!isLive(session) || session.agentId !== agent.id) return false
  return session.state === 'provisioning' || session.sandboxId === report.sandbox_id
}
