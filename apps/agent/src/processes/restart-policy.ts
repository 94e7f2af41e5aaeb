import type { ManagedRecord } from './managed-record.ts'

const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 30_000
/** A run of this length was a good one, and the next wait is short again. */
const GOOD_RUN_MS = 60_000

export type Ended = Pick<ManagedRecord, 'restart' | 'max_restarts' | 'restarts' | 'short_runs' | 'stopped' | 'exit'>

/**
 * Whether a process that has ended is started again, and after how long. One that could not be spawned is not: nothing changes that
 * by itself. An end that nobody saw counts as a failure.
 */
export const restartAfter = ({ restart, max_restarts, restarts, short_runs, stopped, exit }: Ended): number | null => {
  if (stopped || restart === 'never' || exit?.reason === 'spawn_failed') return null
  if (max_restarts !== null && restarts >= max_restarts) return null
  const failed = exit?.reason !== 'exited' || exit.code !== 0
  if (restart === 'on_failure' && !failed) return null
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(short_runs, 16))
}

/** `short_runs` after this end. */
export const shortRuns = ({ short_runs, exit }: Pick<Ended, 'short_runs' | 'exit'>): number =>
  exit !== null && exit.duration_ms >= GOOD_RUN_MS ? 0 : short_runs + 1
