import type { AgentRecord } from '../store/store.ts'

type Report = { lastSeenAt: number; at: number }
type Outage = { from: number; to: number }

/** Older outages have no silence left that they could have caused. */
const MAX_OUTAGES = 100

/**
 * How long agents have been silent. Reports that came to this broker are aged by the monotonic clock, so that a jump of the machine's
 * clock makes no agent look lost, and no lost one look alive [C-77]. Reports to other brokers are aged by their time in the store.
 */
export class AgentSilence {
  readonly #now: () => number
  readonly #monotonic: () => number
  readonly #reports = new Map<string, Report>()
  readonly #startedAt: number
  /** When the database was away, by the monotonic clock. */
  readonly #outages: Outage[] = []

  constructor(now: () => number, monotonic: () => number) {
    this.#now = now
    this.#monotonic = monotonic
    this.#startedAt = monotonic()
  }

  /** The agent has just reported; `lastSeenAt` is what the store has of it. */
  reported(id: string, lastSeenAt: number): void {
    this.#reports.set(id, { lastSeenAt, at: this.#monotonic() })
  }

  /** Milliseconds since the agent's last report. */
  ms({ id, lastSeenAt }: Pick<AgentRecord, 'id' | 'lastSeenAt'>): number {
    const report = this.#reports.get(id)
    if (report?.lastSeenAt === lastSeenAt) return this.#monotonic() - report.at
    return Math.max(0, this.#now() - lastSeenAt)
  }

  /** Agents that this broker heard longer ago than `ms`. Another one may have heard them since. */
  silentFor(ms: number): string[] {
    const before = this.#monotonic() - ms
    return [...this.#reports].flatMap(([id, { at }]) => (at < before ? id : []))
  }

  /** How many agents have reported to this broker within the last `ms`. */
  heardWithin(ms: number): number {
    const since = this.#monotonic() - ms
    return this.#reports.values().reduce((count, { at }) => (at < since ? count : count + 1), 0)
  }

  /** Between these, by the monotonic clock, the database was away: no broker could store a report. */
  databaseWasAway(from: number, to: number): void {
    if (this.#outages.push({ from, to }) > MAX_OUTAGES) this.#outages.shift()
  }

  /** The same, without the time in which nobody could report: before this broker ran, and while the database was away. */
  whileReachable(agent: Pick<AgentRecord, 'id' | 'lastSeenAt'>): number {
    const until = this.#monotonic()
    const since = Math.max(until - this.ms(agent), this.#startedAt)
    return this.#outages.reduce((ms, { from, to }) => ms - Math.max(0, to - Math.max(from, since)), until - since)
  }
}
