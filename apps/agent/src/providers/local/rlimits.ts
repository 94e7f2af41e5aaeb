import { release } from 'node:os'
import type { Profile } from '@boxoffice/protocol'

/**
 * What holds a sandbox to its limits where the agent may use no control group for them [2-03].
 *
 * The number of processes alone. Memory and processor time can be limited per process only, which a sandbox of many is not held
 * by; and programs that reserve more than they use do not start under it: Node 24 has 560 MiB of data reserved when it is idle.
 */
export const rlimitArguments = ({ pids_limit }: Profile): string[] => ['--max-processes', String(pids_limit)]

/**
 * Whether a sandbox's processes are counted apart from others of its user. From Linux 5.14 on they are, in a user namespace of
 * their own. Before, and without one, they share the number with whatever else runs as that user.
 */
export const countsApart = (kernel: string = release()): boolean => {
  const [major = 0, minor = 0] = kernel.split('.').map(Number)
  return major > 5 || (major === 5 && minor >= 14)
}
