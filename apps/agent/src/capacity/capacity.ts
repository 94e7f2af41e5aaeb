import { BoxofficeError } from '@boxoffice/protocol'
import type { DiskFloor } from '../host/disk-floor.ts'
import type { Machine } from './machine.ts'
import { describeReading, type Limit, type Reserve, roomIn } from './room.ts'

export type CapacityOptions = {
  machine: () => Machine
  disk: Pick<DiskFloor, 'shortage'>
  /** What is asked to stay free, where it is not the usual. */
  reserve: Reserve
}

/** Says whether the agent has room for one more sandbox. */
export interface Capacity {
  /** Throws AGENT_FULL. What is admitted counts until it is disposed: by then the machine's own figures have it. */
  admit(): Disposable
}

/** Costs three reads of kernel memory and a `statfs` for each new sandbox, however many there are. */
export const createCapacity = ({ machine, disk, reserve }: CapacityOptions): Capacity => {
  let starting = 0
  return {
    admit() {
      const shortage = disk.shortage()
      if (shortage !== undefined) throw agentFull('disk', shortage)
      const { count, limit, reading } = roomIn(machine(), reserve)
      if (count <= starting) throw agentFull(limit, describeReading(limit, reading))
      starting++
      let over = false
      return {
        [Symbol.dispose]() {
          if (!over) starting--
          over = true
        },
      }
    },
  }
}

/** New sandboxes are refused before those that are there suffer. */
const agentFull = (limit: Limit | 'disk', why: string): BoxofficeError =>
  new BoxofficeError('AGENT_FULL', `this agent has no room for another sandbox: ${why}; release some, or add an agent`, {
    retryAfter: 5,
    details: { limit },
  })
