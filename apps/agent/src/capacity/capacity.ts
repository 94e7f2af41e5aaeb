import { availableParallelism } from 'node:os'
import { BoxofficeError } from '@boxoffice/protocol'
import type { DiskFloor } from '../host/disk-floor.ts'
import type { Machine } from './machine.ts'
import { describeReading, type Limit, type Reserve, roomIn } from './room.ts'

export type CapacityOptions = {
  machine: () => Machine
  disk: Pick<DiskFloor, 'shortage'>
  /** What is asked to stay free, where it is not the usual. */
  reserve: Reserve
  /** How many sandboxes the agent may have, and how many it has. */
  sandboxes?: { most: number | undefined; count: () => number }
}

/** What there is no more of: for one, sandboxes that the agent may have. */
export type Shortage = Limit | 'disk' | 'sandboxes'

/** `recorded`: the sandbox is among those of the agent from now on. */
export type Admission = Disposable & { recorded(): void }

/** Says whether the agent has room for one more sandbox. */
export interface Capacity {
  /** Throws AGENT_FULL. What is admitted counts until it is disposed: by then the machine's own figures have it. */
  admit(): Admission
  /** How many more sandboxes would be admitted now, and what ends them first. */
  room(): { count: number; limit: Shortage }
  /** What there is for all sandboxes together; memory in bytes. */
  readonly total: { memory: number; processors: number }
}

/** Costs three reads of kernel memory and a `statfs` for each new sandbox, however many there are. */
export const createCapacity = ({ machine, disk, reserve, sandboxes }: CapacityOptions): Capacity => {
  let starting = 0
  let unrecorded = 0
  const most = sandboxes?.most ?? Number.POSITIVE_INFINITY
  const left = (): number => Math.max(0, most - (sandboxes?.count() ?? 0) - unrecorded)
  return {
    total: { memory: machine().memory.limit, processors: availableParallelism() },
    room() {
      if (disk.shortage() !== undefined) return { count: 0, limit: 'disk' }
      const { count, limit } = roomIn(machine(), reserve)
      const [free, allowed] = [Math.max(0, count - starting), left()]
      return allowed < free ? { count: allowed, limit: 'sandboxes' } : { count: free, limit }
    },
    admit() {
      const shortage = disk.shortage()
      if (shortage !== undefined) throw agentFull('disk', shortage)
      if (left() < 1) throw agentFull('sandboxes', `it has ${most}, its max_sandboxes`)
      const { count, limit, reading } = roomIn(machine(), reserve)
      if (count <= starting) throw agentFull(limit, describeReading(limit, reading))
      starting++
      unrecorded++
      const end = once(() => starting--)
      const recorded = once(() => unrecorded--)
      return {
        recorded,
        [Symbol.dispose]() {
          recorded()
          end()
        },
      }
    },
  }
}

const once = (action: () => void): (() => void) => {
  let done = false
  return () => {
    if (!done) action()
    done = true
  }
}

/** New sandboxes are refused before those that are there suffer. */
const agentFull = (limit: Shortage, why: string): BoxofficeError =>
  new BoxofficeError('AGENT_FULL', `this agent has no room for another sandbox: ${why}; release some, or add an agent`, {
    retryAfter: 5,
    details: { limit },
  })
