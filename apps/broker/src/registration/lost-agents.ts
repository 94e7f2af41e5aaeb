import type { AgentSilence } from '../agents/silence.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import type { Inventory } from './inventory.ts'

export type LostAgentsOptions = {
  store: Store
  inventory: Inventory
  /** Silence after which an agent's sessions are given up. */
  lostAfterMs: number
  silence: Pick<AgentSilence, 'whileRunning'>
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

  /** One look at all agents. */
  async run(): Promise<void> {
    const { store, inventory } = this.#options
    for (const agent of await store.agents.list()) {
      if (!this.#isLost(agent)) continue
      // It may come back while its sessions are ended, one write after the other.
      const stillHolds = async () => this.#isLost((await store.agents.byId(agent.id)) ?? agent)
      for (const session of await store.agentSessions.placedOn(agent.id)) await inventory.lost(session, 'agent_lost', { stillHolds })
    }
  }

  #isLost(agent: AgentRecord): boolean {
    const { silence, lostAfterMs } = this.#options
    return silence.whileRunning(agent) > lostAfterMs
  }
}
