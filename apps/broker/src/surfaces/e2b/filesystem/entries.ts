import { posix } from 'node:path'
import type { FileEntry } from '@boxoffice/protocol'

const TYPES = {
  file: { name: 'FILE_TYPE_FILE', letter: '-' },
  directory: { name: 'FILE_TYPE_DIRECTORY', letter: 'd' },
  symlink: { name: 'FILE_TYPE_SYMLINK', letter: 'l' },
  other: { name: 'FILE_TYPE_UNSPECIFIED', letter: '?' },
} as const
const RIGHTS = 'rwxrwxrwx'
/** Everything in a sandbox is one user's. */
const OWNER = 'user'

/** E2B's `EntryInfo` as JSON of protobuf: 64-bit numbers are text. */
export const toEntry = ({ type, size, mtime, mode }: FileEntry, absolute: string) => {
  const bits = Number.parseInt(mode, 8)
  return {
    name: posix.basename(absolute),
    type: TYPES[type].name,
    path: absolute,
    size: String(size),
    mode: bits,
    permissions: TYPES[type].letter + [...RIGHTS].map((right, i) => (bits & (0o400 >> i) ? right : '-')).join(''),
    owner: OWNER,
    group: OWNER,
    modifiedTime: mtime,
  }
}
export type Entry = ReturnType<typeof toEntry>
