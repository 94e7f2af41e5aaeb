import { auditEntry, systemOrigin } from '../audit/audit.ts'
import type { SessionLedger } from '../sessions/ledger.ts'
import { threadOf } from '../sessions/scopes.ts'
import type { Store } from '../store/store.ts'

export type LostAgentsOptions = {
  store: Store
  ledger: SessionLedger
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
    const { store, ledger, lostAfterMs, now } = this.#options
    for (const agent of await store.agents.list()) {
      // While this broker was down nobody could report to it.
      if (now() - Math.max(agent.lastSeenAt, this.#startedAt) <= lostAfterMs) continue
      for (const session of await store.sessions.placedOn(agent.id)) {
        const entry = auditEntry('sandbox.session.fail', systemOrigin(session.tenant), {
          ts: now(),
          threadId: threadOf(session.scope),
          sessionId: session.id,
          sandboxId: session.sandboxId,
          outcome: 'failed',
          code: 'SANDBOX_LOST',
        })
        await ledger.change(session, { type: 'sandbox_lost', reason: 'agent_lost' }, { audit: () => [entry] })
      }
    }
  }
}
