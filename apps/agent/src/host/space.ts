import { type StatsFs, statfsSync } from 'node:fs'

/** What is left of a file system for those without privileges, and how much of it is kept free. Bytes and inodes. */
export type Space = { bytes: number; inodes: number; floor: { bytes: number; inodes: number } }

export const MiB = 1024 ** 2
const SHARE = 0.05
const MOST_BYTES = 256 * MiB
const MOST_INODES = 65_536

/** One `statfs`; synchronous, as it takes less than a trip to the thread pool. Undefined where the directory is not there. */
export const readSpace = (directory: string): Space | undefined => {
  const usage = usageOf(directory)
  if (usage === undefined) return undefined
  const { blocks, bavail, bsize, files, ffree } = usage
  return {
    bytes: bavail * bsize,
    // File systems that make inodes as they are needed give no number.
    inodes: files > 0 ? ffree : Number.POSITIVE_INFINITY,
    floor: { bytes: Math.min(MOST_BYTES, blocks * bsize * SHARE), inodes: Math.min(MOST_INODES, Math.floor(files * SHARE)) },
  }
}

/** How many times its floor a file system has left, of bytes or inodes, whichever is less. Below 1 it is low. */
export const floorsLeft = ({ bytes, inodes, floor }: Space): number =>
  Math.min(bytes / Math.max(1, floor.bytes), inodes / Math.max(1, floor.inodes))

/** Undefined where the directory is not there: the engine's may be on another machine. */
const usageOf = (directory: string): StatsFs | undefined => {
  try {
    return statfsSync(directory)
  } catch {
    return undefined
  }
}
