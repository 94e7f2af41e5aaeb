import { BoxofficeError } from '@boxoffice/protocol'
import type { AgentRecord, Store } from '../store/store.ts'

const NONE: ReadonlySet<string> = new Set()

export type Wishes = { except?: ReadonlySet<string>; preferred?: readonly string[] }

/** Says which agent gets the next sandbox, and which are there at all. */
export class Placement {
  readonly #store: Store
  readonly #timeoutMs: number
  readonly #now: () => number

  constructor(store: Store, timeoutMs: number, now: () => number) {
    this.#store = store
    this.#timeoutMs = timeoutMs
    this.#now = now
  }

  /**
   * The first available one of `preferred`, else the available agent with the fewest live sessions; leaving out `except`. 503 when
   * there is none, saying why.
   */
  async choose({ except = NONE, preferred = [] }: Wishes = {}): Promise<AgentRecord> {
    const agents = (await this.#store.agents.list()).filter(({ id }) => !except.has(id))
    const usable = agents.filter((agent) => this.isHeard(agent) && agent.provider.available)
    const [first, ...others] = usable
    if (first === undefined) throw unavailable(agents.filter((agent) => this.isHeard(agent)))
    if (others.length === 0) return first
    for (const id of preferred) {
      const agent = usable.find((one) => one.id === id)
      if (agent !== undefined) return agent
    }
    const load = await this.#store.sessions.liveByAgent()
    return usable.reduce((best, agent) => ((load[agent.id] ?? 0) < (load[best.id] ?? 0) ? agent : best))
  }

  /** Whether the agent has reported lately. */
  isHeard(agent: AgentRecord): boolean {
    return this.#now() - agent.lastSeenAt <= this.#timeoutMs
  }
}

function unavailable(heard: AgentRecord[]): BoxofficeError {
  const reason = heard.find((agent) => agent.provider.reason !== null)?.provider.reason
  const message =
    heard.length === 0
      ? 'no agent is connected; start one with: boxoffice agent'
      : `no agent has an available provider${reason ? `: ${reason}` : ''}`
  return new BoxofficeError('BACKEND_UNAVAILABLE', message, { retryAfter: 2 })
}
