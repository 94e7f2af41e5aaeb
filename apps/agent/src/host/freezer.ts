import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { CgroupVersion } from './cgroup-mounts.ts'
import { read } from './kernel-file.ts'

/** Freezes a control group with all that is in it and below it, and returns when the kernel says that nothing of it runs. */
export const freezeGroup = async (directory: string, version: CgroupVersion): Promise<void> => {
  const file = join(directory, version === 1 ? 'freezer.state' : 'cgroup.freeze')
  await writeFile(file, version === 1 ? 'FROZEN' : '1')
  while (!isGroupFrozen(directory, version)) {
    await delay(1)
    // Version 1 gives up on a task that is busy in the kernel, and wants to be asked again. Throws where the group has gone.
    await writeFile(file, version === 1 ? 'FROZEN' : '1')
  }
}

export const thawGroup = (directory: string, version: CgroupVersion): Promise<void> =>
  writeFile(join(directory, version === 1 ? 'freezer.state' : 'cgroup.freeze'), version === 1 ? 'THAWED' : '0')

/** As the kernel says; it outlives the agent. */
export const isGroupFrozen = (directory: string, version: CgroupVersion): boolean => {
  const text = read(join(directory, version === 1 ? 'freezer.state' : 'cgroup.events'))
  return version === 1 ? text.trim() === 'FROZEN' : text.includes('frozen 1')
}
