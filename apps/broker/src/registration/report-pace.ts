import type { AgentSilence } from '../agents/silence.ts'

export type ReportPaceOptions = {
  silence: Pick<AgentSilence, 'heardWithin'>
  /** `agent_heartbeat`: between two reports of an agent, while there are few agents. */
  leastSeconds: number
  /** `agent_timeout`: silence after which an agent gets no new sandboxes. */
  timeoutSeconds: number
  monotonic: () => number
}

/** Reports in a second that a broker asks for at most: they cost it about a tenth of a processor. */
const REPORTS_PER_SECOND = 250
/** Who has not reported for so long is not counted as an agent of this broker. */
const HEARD_MS = 10_000
/** How long a count holds. */
const COUNT_MS = 1000

/**
 * How often agents report: the more of them report to this broker, the less often each of them, so that their reports do not take the broker
 * from its clients. What cannot wait, as the end of a process, is reported at once at any pace.
 */
export class ReportPace {
  readonly #options: ReportPaceOptions
  #countedAt = Number.NEGATIVE_INFINITY
  #agents = 0

  constructor(options: ReportPaceOptions) {
    this.#options = options
  }

  /** Seconds between two reports of an agent. One that fails comes again within a second, before the silence counts. */
  seconds(): number {
    const { leastSeconds, timeoutSeconds } = this.#options
    return Math.max(leastSeconds, Math.min((timeoutSeconds * 2) / 3, this.#heard() / REPORTS_PER_SECOND))
  }

  #heard(): number {
    const { silence, monotonic } = this.#options
    const now = monotonic()
    if (now - this.#countedAt < COUNT_MS) return this.#agents
    this.#countedAt = now
    this.#agents = silence.heardWithin(HEARD_MS)
    return this.#agents
  }
}
