import { type Dirent, readdirSync, readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parentOf } from '../../../apps/agent/test/support/processes.ts'

/** Ids of the processes on this machine whose command line has `text` in it. */
export const processesWith = (text: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return pid !== process.pid && readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').includes(text)
      } catch {
        return false // it ended between the two looks
      }
    })

/** The first process with `text` in its command line, once there is one. A second look may miss it: in the middle of an exec that line is empty. */
export const processWith = (text: string): Promise<number> => eventually(`a process runs with ${text}`, () => processesWith(text)[0])

/** Whether `ancestor` started a process, or one above it. */
export const isBelow = (pid: number, ancestor: number): boolean => {
  const parent = parentOf(pid)
  return parent === ancestor || (parent !== undefined && parent > 1 && isBelow(parent, ancestor))
}

/** The supervisor above a process: the nearest ancestor of that name. */
export const supervisorOf = (pid: number): number => {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  if (/^Name:\tsupervisor$/m.test(status)) return pid
  const parent = parentOf(pid)
  if (parent === undefined || parent <= 1) throw new Error(`process ${pid} has no supervisor above it`)
  return supervisorOf(parent)
}

/** Whether the kernel holds a process frozen by its cgroup: version 1 has a hierarchy for that, version 2 a file in each group. */
export const isFrozen = (pid: number): boolean => {
  const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n')
  const pathOf = (pattern: RegExp) => groups.map((line) => pattern.exec(line)?.[1]).find((path) => path !== undefined)
  const freezer = pathOf(/^\d+:freezer:(.*)$/)
  if (freezer !== undefined) return readFileSync(`/sys/fs/cgroup/freezer${freezer}/freezer.state`, 'utf8').trim() === 'FROZEN'
  return /^frozen 1$/m.test(readFileSync(`/sys/fs/cgroup${pathOf(/^0::(.*)$/)}/cgroup.events`, 'utf8'))
}

/** Every path below a directory, relative and sorted. One below it that is removed meanwhile has nothing in it; `readdir` would fail. */
export const filesBelow = async (directory: string): Promise<string[]> => {
  const below = async (at: string, entries: readonly Dirent[]): Promise<string[]> => {
    const paths = entries.map(async (entry) => {
      const path = join(at, entry.name)
      return entry.isDirectory() ? [path, ...(await below(path, await entriesOf(join(directory, path)).catch(noneIfGone)))] : [path]
    })
    return (await Promise.all(paths)).flat()
  }
  return (await below('', await entriesOf(directory))).toSorted()
}

const entriesOf = (directory: string): Promise<Dirent[]> => readdir(directory, { withFileTypes: true })

const noneIfGone = (error: NodeJS.ErrnoException): [] => {
  if (error.code === 'ENOENT') return []
  throw error
}

type Look<T> = T | false | undefined

/** Polls until `look` sees something, and gives it; for what the product does in the background and tells nobody. The limit is a hang guard. */
export const eventually = async <T>(what: string, look: () => Look<T> | Promise<Look<T>>, limitMs = 60_000): Promise<T> => {
  const end = performance.now() + limitMs
  for (;;) {
    const seen = await look()
    if (seen !== false && seen !== undefined) return seen
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}
