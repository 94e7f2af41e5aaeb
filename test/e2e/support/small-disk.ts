import { execFileSync } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A file system of its own, gone when it is disposed, whatever still uses it. */
export type SmallDisk = { path: string; freeBytes(): number; freeInodes(): number } & AsyncDisposable

export const makeSmallDisk = async ({ mib, inodes }: { mib: number; inodes: number }): Promise<SmallDisk> => {
  const path = await mkdtemp(join(tmpdir(), 'bxo-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m,nr_inodes=${inodes},mode=711`, 'bxo-disk', path])
  return {
    path,
    freeBytes() {
      const { bavail, bsize } = statfsSync(path)
      return bavail * bsize
    },
    freeInodes: () => statfsSync(path).ffree,
    [Symbol.asyncDispose]: async () => {
      execFileSync('umount', ['--lazy', path])
      await rm(path, { recursive: true })
    },
  }
}
