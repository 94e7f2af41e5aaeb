import { readdirSync, statSync } from 'node:fs'
import { read } from '../host/kernel-file.ts'
import { memoryGroups, pidGroups } from './groups.ts'
import type { Reading } from './reading.ts'

/** What each sandbox takes of a machine; memory in bytes. */
export type Machine = { descriptors: Reading; pids: Reading; memory: Reading }

/** Gives what reads the machine. Limits are read here, once: none of them changes while a process runs. */
export const openMachine = (): (() => Machine) => {
  const files = descriptorLimit()
  const tasks = Math.min(numberIn('/proc/sys/kernel/pid_max'), numberIn('/proc/sys/kernel/threads-max'))
  const groups = { pids: pidGroups(), memory: memoryGroups() }
  return () => ({
    descriptors: { used: openDescriptors(), limit: files },
    pids: tightest([{ used: tasksOfMachine(tasks), limit: tasks }, ...groups.pids()]),
    memory: tightest([memoryOfMachine(), ...groups.memory()]),
  })
}

/** How many files this process may have open. */
export const descriptorLimit = (): number =>
  Number(/^Max open files\s+(\d+)/m.exec(read('/proc/self/limits'))?.[1] ?? Number.POSITIVE_INFINITY)

const tightest = ([first, ...others]: [Reading, ...Reading[]]): Reading =>
  others.reduce((least, one) => (one.limit - one.used < least.limit - least.used ? one : least), first)

const COUNT_EVERY_MS = 1000
let counted = { at: Number.NEGATIVE_INFINITY, descriptors: 0 }

/** Since Linux 6.2 the directory's size is their number. Before, they are counted, at most once a second. */
const openDescriptors = (): number => {
  const { size } = statSync('/proc/self/fd')
  if (size > 0) return size
  const now = performance.now()
  if (now - counted.at > COUNT_EVERY_MS) counted = { at: now, descriptors: readdirSync('/proc/self/fd').length }
  return counted.descriptors
}

/** Threads too, each has a pid. More than there may be: that counts another machine's, around the container that this runs in. */
const tasksOfMachine = (limit: number): number => {
  const all = Number(/^\S+ \S+ \S+ \d+\/(\d+)/.exec(read('/proc/loadavg'))?.[1] ?? 0)
  return all > limit ? 0 : all
}

const memoryOfMachine = (): Reading => {
  const text = read('/proc/meminfo')
  const bytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) * 1024
  const limit = bytes('MemTotal')
  return { used: limit - bytes('MemAvailable'), limit }
}

const numberIn = (path: string): number => Number(read(path).trim() || Number.POSITIVE_INFINITY)
