import { availableParallelism, totalmem } from 'node:os'
import { Profile } from '@boxoffice/protocol'

/** Ten years: a session lasts until it is closed or the server ends. */
const FOR_EVER = 10 * 365 * 24 * 3600

/** Of `sbs run`: nothing is limited but the time of a step, and nothing ends by itself [003 "Safety"]. */
export const stepsProfile = (timeoutSeconds: number): Profile =>
  Profile.parse({
    name: 'sbs',
    network: 'on',
    read_only_rootfs: false,
    cpus: availableParallelism(),
    memory_mb: Math.ceil(totalmem() / 1024 ** 2),
    pids_limit: 32_768,
    max_exec_seconds: Math.max(timeoutSeconds, 3600),
    idle_after_seconds: FOR_EVER,
    idle_timeout_seconds: FOR_EVER,
    stop_after_seconds: FOR_EVER,
    hard_ttl_seconds: FOR_EVER,
    lease_seconds: FOR_EVER,
  })
