import type { AgentSilence } from '../agents/silence.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import type { Inventory } from './inventory.ts'

export type LostAgentsOptions = {
  store: Store
  inventory: Inventory
  /** Silence after which an agent's sessions are given up. */
  lostAfterMs: number
  silence: Pick<AgentSilence, 'whileReachable' | 'silentFor'>
  now: () => number
}

/**
 * Ends the sessions of agents that have been silent for too long, with the reason `agent_lost`, so that the next `ensure` makes a
 * new one where an agent answers. An agent that comes back later is told to destroy what it still has of them.
 */
export class LostAgents {
  readonly #options: LostAgentsOptions

  constructor(options: LostAgentsOptions) {
    this.#options = options
  }

  /** One look, which costs no more with many agents that are there, or that are gone and have no session any more. */
  async run(): Promise<void> {
    const { store, inventory, silence, lostAfterMs, now } = this.#options
    const silent = await store.agents.silentWithSessions(now() - lostAfterMs, silence.silentFor(lostAfterMs))
    const lost = new Map(silent.filter((agent) => this.#isLost(agent)).map((agent) => [agent.id, agent]))
    if (lost.size === 0) return
    for (const session of await store.agentSessions.placedOn([...lost.keys()])) {
      // It may come back while its sessions are ended, one write after the other.
      const stillHolds = async () => {
        const agent = (await store.agents.byId(session.agentId)) ?? lost.get(session.agentId)
        return agent !== undefined && this.#isLost(agent)
      }
      await inventory.lost(session, 'agent_lost', { stillHolds })
    }
  }

  #isLost(agent: AgentRecord): boolean {
    const { silence, lostAfterMs } = this.#options
    return silence.whileReachable(agent) > lostAfterMs
  }
}
