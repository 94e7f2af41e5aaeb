import type { AgentHeartbeatRequest, AgentInstructions, SandboxReport } from '@boxoffice/protocol'

type Report = Pick<AgentHeartbeatRequest, 'sandboxes' | 'partial'>
type Response = Pick<AgentInstructions, 'decisions' | 'revocations'>
/** `usedAt` and `toldAt` in ms of the monotonic clock. */
type Reported = { report: SandboxReport; usedAt: number; toldAt: number }

/** The broker writes the activity of a session when it has moved by so much; to tell of less costs both sides and changes nothing. */
const ACTIVITY_STEP_MS = 1000
/** A session whose sandbox is busy counts as used until now; the broker hears so this often. */
const BUSY_EVERY_MS = 10_000

/**
 * What the broker has of this agent's sandboxes, so that reports need to tell only what has changed since. Only a report that the broker
 * has answered counts: what is lost on the way is told with the next one.
 */
export class ReportedSandboxes {
  readonly #now: () => number
  #known = new Map<string, Reported>()
  /** The broker wants to hear of them once more, changed or not. */
  #again = new Set<string>()

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** What the next report tells, of all sandboxes that are there: those that have changed, and by name those that are gone. */
  changed(present: readonly SandboxReport[]): SandboxReport[] {
    // One of the pool is nobody's yet: where the broker knows it as a session's, that one is gone.
    const ofSessions = present.filter(({ session_id: sessionId }) => sessionId !== null)
    const there = new Set(ofSessions.map(({ sandbox_id: id }) => id))
    const gone = [...this.#known.values()].flatMap(({ report }) => (there.has(report.sandbox_id) ? [] : goneOf(report)))
    return [...ofSessions.filter((report) => this.#isNews(report)), ...gone]
  }

  /** The broker has answered a report. */
  taken({ sandboxes, partial }: Report, { decisions, revocations }: Response): void {
    const now = this.#now()
    if (!partial) this.#known = new Map()
    for (const report of sandboxes) {
      const { sandbox_id: id, session_id: sessionId } = report
      this.#again.delete(id)
      if (sessionId === null || report.state === 'lost') this.#known.delete(id)
      else this.#known.set(id, { report, usedAt: now - report.activity.idle_ms, toldAt: now })
    }
    for (const { sandbox_id: id, action, again } of decisions) {
      // If it is still there with the next report, it could not be removed.
      if (action === 'destroy') this.#known.delete(id)
      else if (again) this.#again.add(id)
    }
    // The broker may have ended before it could have their sandboxes removed.
    const ended = new Set(revocations.sessions.map(({ session_id: id }) => id))
    if (ended.size > 0)
      for (const [id, { report }] of this.#known) if (report.session_id !== null && ended.has(report.session_id)) this.#again.add(id)
  }

  #isNews(report: SandboxReport): boolean {
    const known = this.#known.get(report.sandbox_id)
    if (known === undefined) return true
    const { report: before, usedAt, toldAt } = known
    const now = this.#now()
    const busy = isBusy(report)
    return (
      report.state !== before.state ||
      report.generation !== before.generation ||
      report.session_id !== before.session_id ||
      report.profile_hash !== before.profile_hash ||
      report.egress_revision !== before.egress_revision ||
      busy !== isBusy(before) ||
      (busy ? now - toldAt >= BUSY_EVERY_MS : now - report.activity.idle_ms > usedAt + ACTIVITY_STEP_MS) ||
      this.#again.has(report.sandbox_id)
    )
  }
}

const isBusy = ({ activity }: SandboxReport): boolean => activity.running > 0 || activity.attached > 0

/** Told as one that is lost, which brokers of before know, too. */
const goneOf = (report: SandboxReport): SandboxReport => ({ ...report, state: 'lost', reason: 'sandbox_missing' })
