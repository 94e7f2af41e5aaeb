import type { Profile } from '@boxoffice/protocol'
import type { AgentRecord } from '../store/store.ts'

/** What one more sandbox asks for. */
export type Demand = { memoryBytes: number; processors: number }

export const NO_DEMAND: Demand = { memoryBytes: 0, processors: 0 }

export const demandOf = ({ memory_mb: memory, cpus }: Profile): Demand => ({ memoryBytes: memory * 1024 ** 2, processors: cpus })

/** How taken an agent is: `share` of what it is shortest of, 0 for nothing. */
export type Load = { isFull: boolean; share: number; live: number }

/** How many sandboxes an agent takes, where the agents say so; of one that does not, this is taken to hold. */
export function usualSize(agents: readonly Pick<AgentRecord, 'capacity'>[]): number {
  const sizes = agents.flatMap(({ capacity }) => (capacity === null ? [] : capacity.sessions + capacity.room))
  return Math.max(1, sizes.reduce((sum, size) => sum + size, 0) / Math.max(1, sizes.length))
}

/**
 * The load of an agent that has `live` sessions by now. What it reported is corrected by those that have come and gone since, which are
 * taken to ask for as much as the next one.
 */
export function loadOf({ capacity }: Pick<AgentRecord, 'capacity'>, live: number, { memoryBytes, processors }: Demand, size: number): Load {
  if (capacity === null) return { isFull: false, share: live / size, live }
  const since = live - capacity.sessions
  const { room, memory, processors: cpus } = capacity
  // What has ended since may still be there.
  const isFull = room - Math.max(0, since) < 1
  const part = (taken: number, have: number): number => (have > 0 ? Math.max(0, taken) / have : 0)
  const share = Math.max(
    part(live, capacity.sessions + room),
    part(memory.asked + since * memoryBytes, memory.have),
    part(cpus.asked + since * processors, cpus.have),
  )
  return { isFull, share, live }
}

/** Below 0 where `a` is to have the next sandbox rather than `b`: one with room before one that is full, then the less taken one. */
export function compareLoads(a: Load, b: Load): number {
  if (a.isFull !== b.isFull) return a.isFull ? 1 : -1
  return a.share - b.share || a.live - b.live
}
