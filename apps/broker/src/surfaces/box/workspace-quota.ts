import { BoxofficeError } from '@boxoffice/protocol'
import type { AgentClient } from '../../agents/agent-client.ts'
import type { PlacedSession } from '../../domain/session.ts'
import { COUNTED_ENTRIES } from '../../domain/workspace.ts'
import type { Store } from '../../store/store.ts'

const MiB = 1024 * 1024

/** Holds sessions to the `workspace_quota_mb` of their profile, as far as it can be seen before and after a command [2-119]. */
export class WorkspaceQuota {
  readonly #agents: Pick<Store['agents'], 'byId'>
  readonly #client: Pick<AgentClient, 'workspaceUsage'>

  constructor(agents: Pick<Store['agents'], 'byId'>, client: Pick<AgentClient, 'workspaceUsage'>) {
    this.#agents = agents
    this.#client = client
  }

  /** 503 `capacity` where the workspace is full already. */
  async requireRoom(session: PlacedSession): Promise<void> {
    const over = await this.#over(session)
    if (over !== undefined) throw over
  }

  /** The same after a command, and the session is given up. */
  async requireKept(session: PlacedSession, drop: () => Promise<void>): Promise<void> {
    const over = await this.#over(session)
    if (over === undefined) return
    await drop()
    throw over
  }

  async #over(session: PlacedSession): Promise<BoxofficeError | undefined> {
    const quota = session.profile.workspace_quota_mb
    if (quota === 0) return undefined
    const agent = await this.#agents.byId(session.agentId)
    if (agent === undefined) return undefined
    const { bytes, entries } = await this.#client.workspaceUsage(agent, session.sandboxId, COUNTED_ENTRIES)
    if (bytes <= quota * MiB && entries <= COUNTED_ENTRIES) return undefined
    const found = entries > COUNTED_ENTRIES ? `more than ${COUNTED_ENTRIES} entries` : `${Math.ceil(bytes / MiB)} MiB`
    return new BoxofficeError('QUOTA_EXCEEDED', `the workspace has ${found}, workspace_quota_mb allows ${quota} MiB; delete the session`, {
      details: { limit: 'workspace_quota_mb', max: quota },
    })
  }
}
