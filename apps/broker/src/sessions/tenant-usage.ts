import { withTimeout } from '@boxoffice/kit/with-timeout'
import type { AgentClient } from '../agents/agent-client.ts'
import { isPlaced, type PlacedSession } from '../domain/session.ts'
import { COUNTED_ENTRIES } from '../domain/workspace.ts'
import type { AgentRecord, Store } from '../store/store.ts'

/** `unknown`: sandboxes of which no agent could say it in time. */
export type Processes = { running: number; unknown: number }
export type Disk = { bytes: number; entries: number; unknown: number }

export type TenantUsageOptions = {
  store: Pick<Store, 'agents' | 'sessions'>
  client: Pick<AgentClient, 'list' | 'workspaceUsage'>
}

const STATES = ['active', 'idle', 'suspended'] as const
const MOST = 10_000
const ANSWER_MS = 3000
const AT_ONCE = 4

/** What the sandboxes of a tenant have in use at this moment, as their agents say; none is woken for it. */
export class TenantUsage {
  readonly #options: TenantUsageOptions
  /** A count of one tenant's disk at a time: it reads every directory. */
  readonly #counting = new Map<string, Promise<Disk>>()

  constructor(options: TenantUsageOptions) {
    this.#options = options
  }

  async processes(tenant: string): Promise<Processes> {
    const { client } = this.#options
    const placed = await this.#placed(tenant)
    const lists = await Promise.all(
      [...placed].map(async ([agent, sessions]) => {
        const reports = await withTimeout(client.list(agent), ANSWER_MS, () => undefined).catch(() => undefined)
        const running = new Map(reports?.map(({ sandbox_id, activity }) => [sandbox_id, activity.running]))
        return sessions.map(({ sandboxId }) => running.get(sandboxId))
      }),
    )
    const counts = lists.flat()
    return {
      running: counts.reduce<number>((sum, count = 0) => sum + count, 0),
      unknown: counts.filter((count) => count === undefined).length,
    }
  }

  disk(tenant: string): Promise<Disk> {
    const counting = this.#counting.get(tenant) ?? this.#disk(tenant).finally(() => this.#counting.delete(tenant))
    this.#counting.set(tenant, counting)
    return counting
  }

  async #disk(tenant: string): Promise<Disk> {
    const { client } = this.#options
    const left = [...(await this.#placed(tenant))].flatMap(([agent, sessions]) => sessions.map(({ sandboxId }) => ({ agent, sandboxId })))
    const disk: Disk = { bytes: 0, entries: 0, unknown: 0 }
    const until = performance.now() + ANSWER_MS
    const count = async (): Promise<void> => {
      for (let next = left.pop(); next !== undefined; next = left.pop()) {
        const time = until - performance.now()
        const usage =
          time > 0
            ? await withTimeout(client.workspaceUsage(next.agent, next.sandboxId, COUNTED_ENTRIES), time, () => undefined).catch(
                () => undefined,
              )
            : undefined
        if (usage === undefined) disk.unknown++
        else Object.assign(disk, { bytes: disk.bytes + usage.bytes, entries: disk.entries + usage.entries })
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, count))
    return disk
  }

  /** Live sandboxes by the agent that has them. */
  async #placed(tenant: string): Promise<Map<AgentRecord, PlacedSession[]>> {
    const { store } = this.#options
    const all = { tenant, principal: null, scopeType: null, scopeId: null, label: null, limit: MOST, after: null }
    const live = await Promise.all(STATES.map((state) => store.sessions.list({ ...all, state })))
    const placed = Map.groupBy(live.flat().filter(isPlaced), ({ agentId }) => agentId)
    const agents = new Map<AgentRecord, PlacedSession[]>()
    for (const [id, sessions] of placed) {
      const agent = await store.agents.byId(id)
      if (agent !== undefined) agents.set(agent, sessions)
    }
    return agents
  }
}
