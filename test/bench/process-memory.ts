import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

type Entry = { parent: number; cgroup: string }

const read = (path: string): string => {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // it ended between the two looks
  }
}

/** A process's share of physical memory: its own pages, and its part of those that several processes have. */
export const pssKiB = (pid: number): number => Number(/^Pss:\s+(\d+)/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0)

/** What it has resident, shared or not. */
export const residentKiB = (pid: number): number => Number(/VmRSS:\s+(\d+)/.exec(read(`/proc/${pid}/status`))?.[1] ?? 0)

/** Processor time that it has taken since its start, in ms. The kernel's unit is the same 10 ms on every machine there is. */
export const cpuMs = (pid: number): number => {
  const stat = read(`/proc/${pid}/stat`)
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const processes = (): Map<number, Entry> => {
  const found = new Map<number, Entry>()
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    const stat = Number.isInteger(pid) ? read(`/proc/${pid}/stat`) : ''
    if (stat === '') continue
    found.set(pid, { parent: Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]), cgroup: read(`/proc/${pid}/cgroup`) })
  }
  return found
}

/** What the local provider's sandboxes of an agent have running. */
export type LocalProcesses = {
  /** By sandbox: bubblewrap outside, the supervisor, and whatever is below them or in their control group. */
  sandboxes: Map<string, number[]>
  /** What serves all of them: the prefork process, and what waits in it to become a sandbox. */
  shared: number[]
}

/** Found by what the agent keeps of each sandbox, its process tree and its control group. */
export const localProcesses = (dataDir: string, agentPid: number): LocalProcesses => {
  const all = processes()
  const belongs = (root: number): number[] => {
    const found = [root]
    for (const parent of found) for (const [pid, entry] of all) if (entry.parent === parent) found.push(pid)
    return found.filter((pid) => all.has(pid))
  }
  const sandboxes = new Map<string, number[]>()
  const taken = new Set<number>()
  for (const name of readdirSync(join(dataDir, 'local'))) {
    if (!name.endsWith('.json')) continue
    const { id, monitor, group } = JSON.parse(readFileSync(join(dataDir, 'local', name), 'utf8')) as {
      id: string
      monitor: { pid: number }
      group: string
    }
    const grouped = [...all].filter(([, { cgroup }]) => cgroup.includes(`/${group}\n`)).map(([pid]) => pid)
    const pids = [...new Set([...belongs(monitor.pid), ...grouped])]
    for (const pid of pids) taken.add(pid)
    sandboxes.set(id, pids)
  }
  return { sandboxes, shared: belongs(agentPid).filter((pid) => pid !== agentPid && !taken.has(pid)) }
}
