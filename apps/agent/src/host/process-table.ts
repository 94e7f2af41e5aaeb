import { readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'

/** A process that cannot be mistaken for a later one with the same id: the kernel's start time is part of its name. */
export type ProcessName = { pid: number; startTime: string }

type Stat = { state: string; parent: number; startTime: string }

/** `/proc/PID/stat`, or undefined when there is no such process. The name in parentheses may contain anything, so read from its end. */
const statOf = (pid: number): Stat | undefined => {
  try {
    // Kernel memory: the call is shorter than a trip to the thread pool. As UTF-8, whatever the name is made of: only that spares
    // Node a buffer of 64 KiB for a file that the kernel says is empty.
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0] ?? '', parent: Number(fields[1]), startTime: fields[19] ?? '' }
  } catch {
    return undefined
  }
}

const isDead = (stat: Stat): boolean => stat.state === 'Z' || stat.state === 'X'

/** Names the process that has this id now; undefined when it is dead. */
export const nameProcess = async (pid: number): Promise<ProcessName | undefined> => {
  const stat = statOf(pid)
  return stat === undefined || isDead(stat) ? undefined : { pid, startTime: stat.startTime }
}

/** How the process that has this id now is. */
export const stateOfPid = (pid: number): 'running' | 'stopped' | 'gone' => {
  const stat = statOf(pid)
  if (stat === undefined || isDead(stat)) return 'gone'
  // One that is traced has stopped as well.
  return stat.state === 'T' || stat.state === 't' ? 'stopped' : 'running'
}

/** How the named process is: running, stopped by a signal, or gone (also when another one has its id now). */
export const processState = async (name: ProcessName): Promise<'running' | 'stopped' | 'gone'> => {
  const stat = statOf(name.pid)
  if (stat === undefined || isDead(stat) || stat.startTime !== name.startTime) return 'gone'
  return stat.state === 'T' ? 'stopped' : 'running'
}

/** Signals the named process; one that is gone is fine. */
export const signalProcess = async (name: ProcessName, signal: NodeJS.Signals): Promise<void> => {
  if ((await processState(name)) !== 'gone') signalPid(name.pid, signal)
}

export const signalPid = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // Gone between the look and the kill.
  }
}

const allPids = async (): Promise<number[]> => (await readdir('/proc')).map(Number).filter((pid) => Number.isInteger(pid) && pid > 1)

const pidsWhere = async (file: 'cmdline' | 'environ', matches: (content: string) => boolean): Promise<number[]> => {
  const found = await Promise.all(
    (await allPids()).map(async (pid) => {
      const content = await readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => '')
      return pid !== process.pid && matches(content) ? pid : undefined
    }),
  )
  return found.filter((pid) => pid !== undefined)
}

/** Processes that have `argument` as one whole argument. */
export const pidsWithArgument = (argument: string): Promise<number[]> =>
  pidsWhere('cmdline', (content) => content.split('\0').includes(argument))

/** Processes that have an argument which ends so. */
export const pidsWithArgumentEnd = (...ends: string[]): Promise<number[]> =>
  pidsWhere('cmdline', (content) => content.split('\0').some((argument) => ends.some((end) => argument.endsWith(end))))

/** Processes that were started with this environment variable. */
export const pidsWithVariable = (name: string, value: string): Promise<number[]> =>
  pidsWhere('environ', (content) => content.split('\0').includes(`${name}=${value}`))

/** The named process and everything below it by parent links; what has been reparented is not found. */
export const descendantsOf = async (root: number): Promise<number[]> => {
  const parents = new Map<number, number[]>()
  await Promise.all(
    (await allPids()).map(async (pid) => {
      const stat = statOf(pid)
      if (stat === undefined || isDead(stat)) return
      const siblings = parents.get(stat.parent)
      if (siblings === undefined) parents.set(stat.parent, [pid])
      else siblings.push(pid)
    }),
  )
  const found = [root]
  for (let i = 0; i < found.length; i++) found.push(...(parents.get(found[i] ?? 0) ?? []))
  return found
}

/**
 * Everything below a process that is a subreaper, so that nothing leaves it, without the process itself. Costs a few reads of kernel
 * memory for each that is found, whatever else runs on the machine; one that is born meanwhile may be missing.
 */
export const childrenBelow = (root: number): number[] => {
  const found = [root]
  for (let i = 0; i < found.length; i++) found.push(...childrenOf(found[i] ?? 0))
  return found.slice(1)
}

/** Each thread has its own children. */
const childrenOf = (pid: number): number[] => {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    )
  } catch {
    return []
  }
}
