import { z } from 'zod'
import type { ControlPlane } from './control-plane.ts'

const Agent = z.object({
  id: z.string(),
  public_url: z.string(),
  provider: z.object({ name: z.string().nullable() }),
  version: z.string(),
  last_seen_at: z.string(),
  connected: z.boolean(),
})
/** An agent as operators see it. */
export type Agent = z.infer<typeof Agent>

const ListAgentsResponse = z.object({ agents: z.array(Agent) })

/** The agents of the broker; for operators. */
export class Agents {
  readonly #controlPlane: ControlPlane

  constructor(controlPlane: ControlPlane) {
    this.#controlPlane = controlPlane
  }

  async list({ signal }: { signal?: AbortSignal } = {}): Promise<Agent[]> {
    return (await this.#controlPlane.json('/v1/agents', { signal }, ListAgentsResponse)).agents
  }

  /** Forgets the key of an agent that has lost it: its next registration brings another one. */
  async rekey(id: string, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    await this.#controlPlane.done(`/v1/agents/${encodeURIComponent(id)}/rekey`, { method: 'POST', signal })
  }
}
