import type { Store } from '../store/store.ts'
import type { Inventory } from './inventory.ts'

export type LostAgentsOptions = {
  store: Store
  inventory: Inventory
  /** Silence after which an agent's sessions are given up. */
  lostAfterMs: number
  now: () => number
}

/**
 * Ends the sessions of agents that have been silent for too long, with the reason `agent_lost`, so that the next `ensure` makes a
 * new one where an agent answers. An agent that comes back later is told to destroy what it still has of them.
 */
export class LostAgents {
  readonly #options: LostAgentsOptions
  readonly #startedAt: number

  constructor(options: LostAgentsOptions) {
    this.#options = options
    this.#startedAt = options.now()
  }

  /** One look at all agents. */
  async run(): Promise<void> {
    const { store, inventory, lostAfterMs, now } = this.#options
    for (const agent of await store.agents.list()) {
      // While this broker was down nobody could report to it.
      if (now() - Math.max(agent.lastSeenAt, this.#startedAt) <= lostAfterMs) continue
      for (const session of await store.sessions.placedOn(agent.id)) await inventory.lost(session, 'agent_lost')
    }
  }
}
