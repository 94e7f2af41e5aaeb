import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { retry } from '@boxoffice/kit/retry'
import type { Profile } from '@boxoffice/protocol'
import { type CgroupVersion, type Controller, mountedControllers } from '../../host/cgroup-mounts.ts'
import { freezeGroup, isGroupFrozen, thawGroup } from '../../host/freezer.ts'
import { read } from '../../host/kernel-file.ts'
import { signalPid } from '../../host/process-table.ts'
import type { ProviderCapabilities } from '../../sandbox/provider.ts'

/** Where each controller of the kernel is mounted; one that the host lacks, or that this process may not use, is absent. */
type Hierarchies = Partial<Record<Controller, { version: CgroupVersion; directory: string }>>

/** The control groups of all sandboxes of one install: which limits they enforce, and a group per sandbox. */
export interface Cgroups {
  /**
   * Ends what is in the groups that `keep` does not name, and removes them: they are of this install, and nobody knows them any
   * more. Resolves with the names of those that held processes.
   */
  sweep(keep: ReadonlySet<string>): Promise<string[]>
  readonly limits: ProviderCapabilities['limits']
  readonly canFreeze: boolean
  /** In which groups are made, one in each hierarchy. */
  readonly directories: readonly string[]
  group(name: string): CgroupGroup
}

/** One sandbox's group, in as many hierarchies as the kernel has. Its directories exist between `create` and `remove`. */
export interface CgroupGroup {
  /** The file that counts the out-of-memory kills of the group. */
  readonly oomFile: string | undefined
  readonly directories: readonly string[]
  /** Makes the directories where they are missing, and sets the limits. */
  create(profile: Profile): void
  attach(pid: number): Promise<void>
  pids(): Promise<number[]>
  freeze(): Promise<void>
  thaw(): Promise<void>
  frozen(): Promise<boolean>
  oomKills(): Promise<number>
  remove(): Promise<void>
}

const PERIOD_MICROSECONDS = 100_000
const PERIOD_FILE = 'cpu.cfs_period_us'
const MiB = 1024 * 1024

// The pids limit counts the monitor that bubblewrap leaves outside of the sandbox, so one more than the profile says.
const limitFiles = (
  controller: Controller,
  version: CgroupVersion,
  { memory_mb, pids_limit, cpus }: Profile,
): [file: string, value: string, optional?: true][] => {
  const quota = String(Math.max(1000, Math.round(cpus * PERIOD_MICROSECONDS)))
  switch (controller) {
    case 'memory':
      // Swap accounting is off in many kernels; then the first limit is all there is.
      return version === 1
        ? [
            ['memory.limit_in_bytes', String(memory_mb * MiB)],
            ['memory.memsw.limit_in_bytes', String(memory_mb * MiB), true],
          ]
        : [
            ['memory.max', String(memory_mb * MiB)],
            ['memory.swap.max', '0', true],
          ]
    case 'pids':
      return [['pids.max', String(pids_limit + 1)]]
    case 'cpu':
      return version === 1
        ? [
            [PERIOD_FILE, String(PERIOD_MICROSECONDS)],
            ['cpu.cfs_quota_us', quota],
          ]
        : [['cpu.max', `${quota} ${PERIOD_MICROSECONDS}`]]
    case 'freezer':
      return []
  }
}

/**
 * Finds the hierarchies in which this process may make groups below `boxoffice/<install>`, or undefined when there are none:
 * an unprivileged agent outside of a delegated group.
 */
export const openCgroups = (installId: string): Cgroups | undefined => {
  const hierarchies: Hierarchies = {}
  for (const [controller, { version, mount }] of mountedControllers()) {
    const directory = writableParent(mount, version, controller, installId)
    if (directory !== undefined) hierarchies[controller] = { version, directory }
  }
  if (Object.keys(hierarchies).length === 0) return undefined
  return {
    limits: [
      ...(hierarchies.cpu === undefined ? [] : (['cpus'] as const)),
      ...(hierarchies.memory === undefined ? [] : (['memory_mb'] as const)),
      ...(hierarchies.pids === undefined ? [] : (['pids_limit'] as const)),
    ],
    canFreeze: hierarchies.freezer !== undefined,
    directories: [...new Set(Object.values(hierarchies).map(({ directory }) => directory))],
    group: (name) => cgroupGroup(hierarchies, name),
    async sweep(keep) {
      const names = Object.values(hierarchies).flatMap(({ directory }) =>
        readdirSync(directory, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])),
      )
      const unknown = [...new Set(names)].filter((name) => !keep.has(name))
      const ended = await Promise.all(unknown.map((name) => endGroup(cgroupGroup(hierarchies, name))))
      return unknown.filter((_, at) => ended[at])
    },
  }
}

/** Makes `boxoffice/<install>` at the top of a hierarchy, else below our own group where that was delegated to us. */
const writableParent = (mount: string, version: CgroupVersion, controller: Controller, installId: string): string | undefined => {
  for (const root of version === 1 ? [mount] : [mount, ...delegatedGroup(mount)]) {
    const directory = join(root, 'boxoffice', installId)
    try {
      mkdirSync(directory, { recursive: true })
      if (version === 2 && controller !== 'freezer') {
        for (const level of [root, dirname(directory), directory]) writeFileSync(join(level, 'cgroup.subtree_control'), `+${controller}`)
      }
      return directory
    } catch {
      // Read-only, not ours, or occupied by processes: try the next one.
    }
  }
  return undefined
}

// A group of version 2 that holds processes cannot have groups with limits below it, so the agent moves into a leaf of its own.
const delegatedGroup = (mount: string): string[] => {
  try {
    const own = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1]
    if (own === undefined || own === '/') return []
    const leaf = join(mount, own, 'agent')
    mkdirSync(leaf, { recursive: true })
    writeFileSync(join(leaf, 'cgroup.procs'), String(process.pid))
    return [join(mount, own)]
  } catch {
    return []
  }
}

const cgroupGroup = (hierarchies: Hierarchies, name: string): CgroupGroup => {
  const entries = (Object.entries(hierarchies) as [Controller, { version: CgroupVersion; directory: string }][]).map(
    ([controller, { version, directory }]) => ({ controller, version, directory: join(directory, name) }),
  )
  const directories = [...new Set(entries.map((entry) => entry.directory))]
  const memory = entries.find((entry) => entry.controller === 'memory')
  const freezer = entries.find((entry) => entry.controller === 'freezer')
  const oomFile = memory && join(memory.directory, memory.version === 1 ? 'memory.oom_control' : 'memory.events')
  const pidsFile = directories[0] && join(directories[0], 'cgroup.procs')

  const pids = async (): Promise<number[]> => {
    const text = pidsFile === undefined ? '' : await readFile(pidsFile, 'utf8').catch(() => '')
    return text.split('\n').filter(Boolean).map(Number)
  }

  return {
    oomFile,
    directories,
    pids,
    // Synchronous on purpose: these files are kernel memory, and each call takes less than a trip through the thread pool.
    create(profile) {
      for (const directory of directories) if (!existsSync(directory)) mkdirSync(directory)
      for (const { controller, version, directory } of entries) {
        for (const [file, value, optional] of limitFiles(controller, version, profile)) {
          const path = join(directory, file)
          if (optional && !existsSync(path)) continue
          // For the period, a group's default, the kernel walks the groups of all sandboxes, even where nothing changes.
          if (file === PERIOD_FILE && read(path).trim() === value) continue
          writeFileSync(path, value)
        }
      }
    },
    // Not synchronous: after a pause the first move waits several milliseconds for the kernel; those that follow are free.
    async attach(pid) {
      for (const directory of directories) await writeFile(join(directory, 'cgroup.procs'), String(pid))
    },
    async freeze() {
      if (freezer !== undefined) await freezeGroup(freezer.directory, freezer.version)
    },
    async thaw() {
      if (freezer !== undefined) await thawGroup(freezer.directory, freezer.version)
    },
    frozen: async () => freezer !== undefined && isGroupFrozen(freezer.directory, freezer.version),
    async oomKills() {
      const text = oomFile === undefined ? '' : await readFile(oomFile, 'utf8').catch(() => '')
      return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0)
    },
    async remove() {
      for (const directory of directories) await removeGroup(directory)
    },
  }
}

/** True where there was something to end. */
const endGroup = async (group: CgroupGroup): Promise<boolean> => {
  let ended = false
  for (let pids = await group.pids(); pids.length > 0; pids = await group.pids()) {
    ended = true
    for (const pid of pids) signalPid(pid, 'SIGKILL')
    // A frozen process dies only when it is thawed.
    await group.thaw().catch(() => {})
    await delay(1)
  }
  await group.remove()
  return ended
}

/** A group can be removed once its last process is reaped, which is a moment after its death. */
const removeGroup = async (directory: string): Promise<void> => {
  const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code
  await retry(() => rmdir(directory), {
    waitMs: (error, failures) => (codeOf(error) === 'EBUSY' && failures <= 500 ? Math.min(10, failures) : undefined),
  }).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
  })
}

/** Removes the install's own, empty groups; for tests and `destroyOnExit`. */
export const removeInstallGroups = (installId: string): void => {
  for (const { mount } of mountedControllers().values()) {
    try {
      rmdirSync(join(mount, 'boxoffice', installId))
    } catch {
      // Not there, or still in use.
    }
  }
}
