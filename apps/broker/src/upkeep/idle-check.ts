import { BoxofficeError } from '@boxoffice/protocol'
import type { AgentClient } from '../agents/agent-client.ts'
import type { Placement } from '../agents/placement.ts'
import { type SessionEvent, transition } from '../domain/lifecycle.ts'
import { isPlaced, type LiveSession } from '../domain/session.ts'
import type { Log } from '../host/log.ts'
import type { Inventory } from '../registration/inventory.ts'
import type { AgentRecord } from '../store/store.ts'

export type IdleCheckOptions = { client: AgentClient; inventory: Inventory; placement: Placement; log: Log; now: () => number }

/**
 * Asks the agent once more before a session is ended for being unused: its last report is as old as its heartbeat, and a job may
 * have begun since. No idle timer kills a running job [C-51].
 */
export class IdleCheck {
  readonly #options: IdleCheckOptions

  constructor(options: IdleCheckOptions) {
    this.#options = options
  }

  /** False where the tick would end the session unused, but nobody can say that it is; the next round asks again. */
  async permits(session: LiveSession, tick: SessionEvent, agent: AgentRecord): Promise<boolean> {
    const { client, inventory, placement, log, now } = this.#options
    const { session: after } = transition(session, tick, now())
    if (!isPlaced(session) || after.state !== 'terminated' || after.reason === 'hard_ttl') return true
    // One that stays silent loses its sessions by another rule.
    if (!placement.isHeard(agent)) return false
    try {
      await inventory.reconcile(agent, [await client.report(agent, session.sandboxId)], false)
      return true
    } catch (thrown) {
      if (thrown instanceof BoxofficeError && thrown.code === 'BINDING_NOT_FOUND') return true
      log.warn({ session_id: session.id, err: thrown }, 'whether the session is unused cannot be asked; it stays until that is known')
      return false
    }
  }
}
