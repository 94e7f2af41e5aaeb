import { BoxofficeError } from '@boxoffice/protocol'
import { MiB, readSpace } from './space.ts'

export type DiskFloorOptions = {
  /** Where the agent keeps workspaces and records. */
  dataDirectory: string
  /** Where the engine keeps what sandboxes change outside of their workspaces, if that is on this machine. */
  engineDirectory: () => string | undefined
}

/** Which file systems a write goes to: a workspace's, or whatever else the sandbox sees. */
export type Written = 'workspace' | 'sandbox'

/** Keeps a part of each file system free, so that whoever fills it leaves enough to the others, the broker and the operator. */
export interface DiskFloor {
  /** Throws 507 `disk_low` where `bytes` more would take of what is kept free; `given` is the client's path. */
  require(given: string, written: Written, bytes?: number): void
  /** What is short, in words; undefined where there is enough for new sandboxes. */
  shortage(): string | undefined
}

/** A body is looked at again after so much of it: others write at the same time, and not every body has a length. */
const LOOK_EVERY_BYTES = 4 * 1024 ** 2

/** Looks at the disk again as a body grows; called with how much of it has come. */
export const lookWhileGrowing = (look: () => void): ((bytes: number) => void) => {
  let next = LOOK_EVERY_BYTES
  return (bytes) => {
    if (bytes < next) return
    next = bytes + LOOK_EVERY_BYTES
    look()
  }
}

export const RETRY_AFTER_SECONDS = 10

/** One `statfs` per look, whatever the number of sandboxes. */
export const createDiskFloor = ({ dataDirectory, engineDirectory }: DiskFloorOptions): DiskFloor => {
  const directoriesOf = (written: Written): string[] => {
    const engine = written === 'sandbox' ? engineDirectory() : undefined
    return [dataDirectory, ...(engine === undefined ? [] : [engine])]
  }
  const shortageOf = (written: Written, bytes: number): string | undefined => {
    for (const directory of directoriesOf(written)) {
      const shortage = shortageAt(directory, bytes)
      if (shortage !== undefined) return shortage
    }
    return undefined
  }
  return {
    require(given, written, bytes = 0) {
      const shortage = shortageOf(written, bytes)
      if (shortage === undefined) return
      throw new BoxofficeError(
        'QUOTA_EXCEEDED',
        `${JSON.stringify(given)} does not fit: no space is left for it (${shortage}); delete something first`,
        {
          retryAfter: RETRY_AFTER_SECONDS,
          details: { reason: 'disk_low' },
        },
      )
    },
    shortage: () => shortageOf('sandbox', 0),
  }
}

/** What is left of a file system for others once `bytes` more are written, in words, where that is less than is kept free. */
const shortageAt = (directory: string, bytes: number): string | undefined => {
  const space = readSpace(directory)
  if (space === undefined) return undefined
  const { floor } = space
  if (space.bytes - bytes < floor.bytes) return `${inMiB(space.bytes)} of the disk are free, of which ${inMiB(floor.bytes)} are kept`
  if (space.inodes < floor.inodes) return `${space.inodes} inodes of the disk are free, of ${floor.inodes} that are kept`
  return undefined
}

const inMiB = (bytes: number): string => `${Math.round(bytes / MiB)} MiB`
