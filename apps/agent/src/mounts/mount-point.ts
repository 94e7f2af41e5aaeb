import { constants } from 'node:fs'
import { type FileHandle, lchown, mkdir, open } from 'node:fs/promises'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Owner } from '../data-dir/layout.ts'

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

export type MountPoint = {
  /** On the host: what the mount lies in. */
  within: string
  segments: readonly string[]
  /** Null: it must be there already. */
  makeFor: Owner | null
  field: string
}

/**
 * Makes the directory that a mount below another one covers. What runs in sandboxes may have put links there, and the engine works
 * as root: each step is taken from the directory before it and follows none.
 */
export const makeMountPoint = async ({ within, segments, makeFor, field }: MountPoint): Promise<void> => {
  let directory: FileHandle = await open(within, DIRECTORY)
  try {
    for (const segment of segments) {
      const path = `/proc/self/fd/${directory.fd}/${segment}`
      if (makeFor !== null) await makeDirectory(path, makeFor)
      const next = await open(path, DIRECTORY).catch((error: NodeJS.ErrnoException) => {
        throw refusal(field, segments, error)
      })
      await directory.close()
      directory = next
    }
  } finally {
    await directory.close()
  }
}

const makeDirectory = async (path: string, { uid, gid }: Owner): Promise<void> => {
  try {
    await mkdir(path, { mode: 0o755 })
    if (process.getuid?.() === 0) await lchown(path, uid, gid)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

const refusal = (field: string, segments: readonly string[], { code }: NodeJS.ErrnoException): BoxofficeError => {
  const why = code === 'ENOENT' ? 'is not there, and what it lies in is read-only' : 'is not a directory but a link or a file'
  return new BoxofficeError('INVALID_REQUEST', `${field}: mount_path cannot be used: ${segments.join('/')} ${why}`, { details: { field } })
}
