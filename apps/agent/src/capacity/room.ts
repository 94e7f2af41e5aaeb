import type { Machine } from './machine.ts'
import type { Reading } from './reading.ts'

export type Limit = keyof Machine
/** What is kept free for those sandboxes that are there, and for what else runs; memory in bytes. */
export type Reserve = { [What in Limit]?: number | undefined }
export type Room = { count: number; limit: Limit; reading: Reading }

const MiB = 1024 ** 2

/**
 * What an idle sandbox takes, rounded up. The descriptor is its control connection; 2,400 local ones took 1.05 MiB each; the pids
 * are the monitor's, the supervisor's, and one for a command.
 */
const COST: Record<Limit, number> = { descriptors: 1, pids: 3, memory: 1.25 * MiB }

/** A share of small machines, an amount of large ones. A sandbox in use takes eight descriptors and more, and so do its clients. */
const RESERVES: Record<Limit, (limit: number) => number> = {
  descriptors: (limit) => limit / 8,
  pids: (limit) => Math.min(1024, limit / 8),
  memory: (limit) => Math.min(256 * MiB, limit / 32),
}

/** How many more sandboxes a machine has room for, and what it is short of first. */
export const roomIn = (machine: Machine, reserve: Reserve = {}): Room => {
  const room = (limit: Limit): Room => {
    const reading = machine[limit]
    const kept = reserve[limit] ?? RESERVES[limit](reading.limit)
    return { count: Math.max(0, Math.floor((reading.limit - reading.used - kept) / COST[limit])), limit, reading }
  }
  return [room('descriptors'), room('pids'), room('memory')].reduce((least, one) => (one.count < least.count ? one : least))
}

const WORDS: Record<Limit, (reading: Reading) => string> = {
  descriptors: ({ used, limit }) => `${used} of ${limit} file descriptors are open (RLIMIT_NOFILE)`,
  pids: ({ used, limit }) => `${used} of ${limit} process ids are taken (kernel.pid_max, pids.max)`,
  memory: ({ used, limit }) => `${Math.round((limit - used) / MiB)} MiB of ${Math.round(limit / MiB)} MiB of memory are free`,
}

export const describeReading = (limit: Limit, reading: Reading): string => WORDS[limit](reading)

/** How many sandboxes fit into this machine beside what runs on it now, in words, for `boxoffice doctor`. */
export const describeRoom = (machine: Machine): { count: number; message: string } => {
  const { count, limit, reading } = roomIn(machine)
  return { count, message: `room for about ${count} more sandboxes, then ${limit} end: ${describeReading(limit, reading)}` }
}
