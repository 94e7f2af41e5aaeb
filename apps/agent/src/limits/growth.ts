import { readdirSync, type Stats, statSync } from 'node:fs'
import { read } from '../host/kernel-file.ts'
import { MiB, type Space } from '../host/space.ts'
import { workspaceUsage } from '../mounts/workspace-usage.ts'
import type { Inside } from '../sandbox/provider.ts'

/** Who has taken this part of what was lost is held. */
const SHARE = 0.25
/** Of one sandbox; more are not looked at. */
const MOST_DESCRIPTORS = 4096
/** A workspace of more entries is not counted any further. */
export const MOST_ENTRIES = 100_000

export type Amount = { bytes: number; inodes: number }
const KINDS = ['bytes', 'inodes'] as const

/** Who has taken less than this is never held for it: 1 MiB or 256 inodes, and less only on a small file system. */
export const leastOf = ({ floor }: Space): Amount => ({
  bytes: Math.min(MiB, floor.bytes / 8),
  inodes: Math.min(256, Math.max(1, floor.inodes / 8)),
})

/** What a sandbox has written and has, as far as it has been looked at. */
export type Use = {
  /** By all its processes, those that have ended included. */
  written: number
  /** Bytes and entries of its workspace, and of its container's own files; undefined where they have not been counted. */
  kept: Amount | undefined
}

/** What is gone of a file system, how much of that counts at all, and what of it there is too little of. */
export type Loss = { lost: Amount; least: Amount; short: { bytes: boolean; inodes: boolean } }

/** What a sandbox took between two looks. `uncounted`: it has too many entries to be counted. */
export type Growth = Amount & { uncounted: boolean }

/** `directories`: of what it keeps, where that is to be counted. */
export const useOf = async ({ supervisor, others }: Inside, device: number, directories: readonly string[]): Promise<Use> => {
  const written = [supervisor, ...others].reduce((sum, pid) => sum + writtenBy(pid), 0)
  if (directories.length === 0) return { written, kept: undefined }
  const kept = deletedButOpen(others, device)
  for (const directory of directories) {
    const { bytes, entries } = await workspaceUsage(directory, MOST_ENTRIES)
    kept.bytes += bytes
    kept.inodes += entries
  }
  return { written, kept }
}

export const growthOf = (before: Use, now: Use): Growth => {
  const kept = { bytes: 0, inodes: 0 }
  if (before.kept !== undefined && now.kept !== undefined) {
    kept.bytes = now.kept.bytes - before.kept.bytes
    kept.inodes = now.kept.inodes - before.kept.inodes
  }
  return {
    bytes: Math.max(0, now.written - before.written, kept.bytes),
    inodes: Math.max(0, kept.inodes),
    uncounted: (now.kept?.inodes ?? 0) > MOST_ENTRIES,
  }
}

/**
 * Who is to be held for what was lost, those who took most first. Only what is `short` counts. Those with a quarter of it; where the
 * loss is that of many, the greatest alone; where it is nobody's that was counted, those who cannot be counted.
 */
export const takersOf = <S>({ lost, least, short }: Loss, growths: ReadonlyMap<S, Growth>): S[] => {
  const found = new Set<S>()
  for (const kind of KINDS)
    if (short[kind] && lost[kind] >= least[kind]) for (const one of takers(kind, lost, least, growths)) found.add(one)
  return [...found]
}

const takers = <S>(kind: keyof Amount, lost: Amount, least: Amount, growths: ReadonlyMap<S, Growth>): S[] => {
  const sorted = [...growths].sort(([, a], [, b]) => b[kind] - a[kind])
  const large = sorted.filter(([, growth]) => growth[kind] >= Math.max(least[kind], lost[kind] * SHARE))
  if (large.length > 0) return large.map(([one]) => one)
  const greatest = sorted[0]
  if (half(kind, lost, growths) && greatest !== undefined && greatest[1][kind] >= least[kind]) return [greatest[0]]
  return sorted.filter(([, growth]) => growth.uncounted).map(([one]) => one)
}

/** Whether somebody can be held for it. */
export const enough = (lost: Amount, least: Amount): boolean => KINDS.some((kind) => lost[kind] >= least[kind])

/** Whether what was counted makes up half of what was lost. */
export const explains = (lost: Amount, least: Amount, growths: ReadonlyMap<unknown, Growth>): boolean =>
  KINDS.every((kind) => lost[kind] < least[kind] || half(kind, lost, growths))

const half = (kind: keyof Amount, lost: Amount, growths: ReadonlyMap<unknown, Growth>): boolean =>
  [...growths.values()].reduce((sum, growth) => sum + growth[kind], 0) >= lost[kind] / 2

/** What is deleted and still open: it is in no directory. */
const deletedButOpen = (pids: readonly number[], device: number): Amount => {
  const found = new Map<number, number>()
  for (const path of pids.flatMap(descriptorsOf).slice(0, MOST_DESCRIPTORS)) {
    const file = fileAt(path)
    if (file?.isFile() && file.nlink === 0 && file.dev === device) found.set(file.ino, file.blocks * 512)
  }
  return { bytes: [...found.values()].reduce((sum, bytes) => sum + bytes, 0), inodes: found.size }
}

const descriptorsOf = (pid: number): string[] => {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((name) => `/proc/${pid}/fd/${name}`)
  } catch {
    return []
  }
}

/** Undefined where it is closed meanwhile, or nobody may look. */
const fileAt = (path: string): Stats | undefined => {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

/** Bytes that the process, and what it has reaped, made the kernel write, less those that were cut off again before. */
const writtenBy = (pid: number): number => {
  const text = read(`/proc/${pid}/io`)
  const field = (name: string): number => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(text)?.[1] ?? 0)
  return Math.max(0, field('write_bytes') - field('cancelled_write_bytes'))
}
