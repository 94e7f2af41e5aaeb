import { BoxofficeError } from '@boxoffice/protocol'
import { type AgentClient, AgentUnreachable } from '../agents/agent-client.ts'
import type { AgentSilence } from '../agents/silence.ts'
import type { AgentRecord } from '../store/store.ts'

export type InstallPresenceOptions = {
  client: Pick<AgentClient, 'instance'>
  silence: Pick<AgentSilence, 'ms'>
  /** After so long without a report an instance that cannot be asked counts as gone. */
  silentAfterMs: number
}

const ANSWER_WITHIN_MS = 4000

/**
 * Whether the instance of an install that registered last is still there when another one registers: a data directory may have been
 * copied, with its key, to a second machine. The present one is asked at its own URL, so it keeps its sessions as long as it lives.
 */
export class InstallPresence {
  readonly #options: InstallPresenceOptions

  constructor(options: InstallPresenceOptions) {
    this.#options = options
  }

  /** 409 `agent_elsewhere` while the present instance is there. */
  async requireGone(present: AgentRecord, newcomer: AgentRecord): Promise<void> {
    if (!(await this.#isThere(present, newcomer))) return
    throw new BoxofficeError(
      'BINDING_CONFLICT',
      `this install runs as instance ${present.instanceId} at ${present.controlUrl}; stop that one, or give this one a data directory of its own`,
      { details: { reason: 'agent_elsewhere' } },
    )
  }

  async #isThere(present: AgentRecord, newcomer: AgentRecord): Promise<boolean> {
    const { client, silence, silentAfterMs } = this.#options
    const isHeard = (): boolean => silence.ms(present) <= silentAfterMs
    // Somebody says that it is the present one and cannot show it: the true one goes on reporting.
    if (newcomer.instanceId === present.instanceId) return isHeard()
    const answer = await client.instance(present, AbortSignal.timeout(ANSWER_WITHIN_MS)).catch((thrown: unknown) => {
      if (thrown instanceof AgentUnreachable) return thrown
      throw thrown
    })
    if (answer instanceof AgentUnreachable) return isRefusedConnection(answer) ? false : isHeard()
    const { status, instance } = answer
    if (instance !== undefined) return instance.install_id === present.installId && instance.instance_id === present.instanceId
    // A restart on the same port: the new process takes no control token before it has registered. Only the key shows that it is no other one.
    if (status === 401 && present.publicKey !== null && newcomer.controlUrl === present.controlUrl) return false
    return isHeard()
  }
}

/** The host is there, and nobody listens. */
const isRefusedConnection = ({ cause }: AgentUnreachable): boolean =>
  cause instanceof Error && (cause as NodeJS.ErrnoException).code === 'ECONNREFUSED'
