import type { AgentRecord } from '../store/store.ts'

type Report = { lastSeenAt: number; at: number }

/**
 * How long agents have been silent. Reports that came to this broker are aged by the monotonic clock, so that a jump of the machine's
 * clock makes no agent look lost, and no lost one look alive [C-77]. Reports to other brokers are aged by their time in the store.
 */
export class AgentSilence {
  readonly #now: () => number
  readonly #monotonic: () => number
  readonly #reports = new Map<string, Report>()
  readonly #startedAt: number

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

  /** The same, but no longer than this broker has run: while it was down nobody could report to it. */
  whileRunning(agent: AgentRecord): number {
    return Math.min(this.ms(agent), this.#monotonic() - this.#startedAt)
  }
}
