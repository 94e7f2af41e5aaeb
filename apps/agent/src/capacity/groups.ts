import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { read } from '../host/kernel-file.ts'
import type { Reading } from './reading.ts'

/** What the control groups above this process allow; those without a limit are left out once, and never looked at again. */
export type LimitedGroups = () => Reading[]

export const pidGroups = (): LimitedGroups => {
  const groups = groupsOf('pids').flatMap((directory) => limited(directory, 'pids.max', 'pids.current'))
  return () => groups.map(({ limit, usage }) => ({ limit, used: Number(read(usage)) }))
}

/** Pages of files are given back when memory is short, so they do not count; they are looked up only where little seems to be left. */
export const memoryGroups = (): LimitedGroups => {
  const groups = groupsOf('memory').flatMap((directory) => [
    ...limited(directory, 'memory.max', 'memory.current').map((group) => ({ ...group, files: /^(?:in)?active_file (\d+)/gm })),
    ...limited(directory, 'memory.limit_in_bytes', 'memory.usage_in_bytes').map((group) => ({
      ...group,
      files: /^total_(?:in)?active_file (\d+)/gm,
    })),
  ])
  return () =>
    groups.map(({ directory, limit, usage, files }) => {
      const used = Number(read(usage))
      if (used < limit * MUCH) return { limit, used }
      const pages = [...read(join(directory, 'memory.stat')).matchAll(files)].reduce((sum, [, bytes]) => sum + Number(bytes), 0)
      return { limit, used: Math.max(0, used - pages) }
    })
}

/** From this share on it is worth a look how much of it is pages of files: the kernel adds up all groups below for that. */
const MUCH = 0.75

/** Version 1 writes a number near 2^63 for "no limit". */
const UNLIMITED = 2 ** 60

const limited = (directory: string, max: string, current: string): { directory: string; limit: number; usage: string }[] => {
  const limit = Number(read(join(directory, max)).trim() || Number.NaN)
  return limit > 0 && limit < UNLIMITED ? [{ directory, limit, usage: join(directory, current) }] : []
}

/** The directories of the process's own group and of those above it, where that controller is mounted. */
const groupsOf = (controller: 'pids' | 'memory'): string[] => {
  const found: string[] = []
  for (const line of read('/proc/mounts').split('\n')) {
    const [, mount = '', type, options = ''] = line.split(' ')
    const own =
      type === 'cgroup2'
        ? /^0::(.*)$/m.exec(read('/proc/self/cgroup'))?.[1]
        : type === 'cgroup' && options.split(',').includes(controller)
          ? new RegExp(`^\\d+:(?:[^:]*,)?${controller}(?:,[^:]*)?:(.*)$`, 'm').exec(read('/proc/self/cgroup'))?.[1]
          : undefined
    if (own === undefined) continue
    for (let group = own; ; group = dirname(group)) {
      const directory = join(mount, group)
      if (existsSync(directory)) found.push(directory)
      if (group === '/' || group === '.') break
    }
  }
  return found
}
