import { hintRead } from '@boxoffice/node-http'
import { readAhead } from '../../fast-io/read-ahead.ts'
import { readFile, statFile } from '../../files/files.ts'
import type { ListEntry } from '../../files/listing.ts'
import { below, type SandboxPath } from '../../files/paths.ts'
import type { Call } from '../../http/call.ts'
import type { FileStat } from '../../supervisor/payloads.ts'

/** A supervisor sends as much with one write. */
const SMALL_FILE_BYTES = 64 * 1024

/** What was read of an entry before its turn: of a file its first `SMALL_FILE_BYTES`, of a link where it points. */
export type Ahead = { stat: FileStat | undefined; content: Buffer }
export type ArchiveEntry = { entry: ListEntry; path: SandboxPath; ahead: Promise<Ahead> | undefined }

/** The entries of a listing in their order. Links and small files are read a few entries ahead. */
export const archiveEntries = (call: Call, directory: SandboxPath, entries: readonly ListEntry[]): Iterable<ArchiveEntry> =>
  readAhead(
    entries.values().map((entry) => ({ entry, path: below(directory, entry.path) })),
    ({ entry, path }) => (isSmall(entry) ? readEntry(call, entry, path) : undefined),
  )

const isSmall = ({ type, size }: ListEntry): boolean => type === 'symlink' || (type === 'file' && size <= SMALL_FILE_BYTES)

const readEntry = async ({ sandbox, signal }: Call, { type }: ListEntry, path: SandboxPath): Promise<Ahead> => {
  if (type === 'symlink') return { stat: await statFile(sandbox, path, { follow: false, signal }), content: Buffer.alloc(0) }
  let stat: FileStat | undefined
  let content: Buffer = Buffer.alloc(0)
  const sink = {
    opened: (opened: FileStat) => {
      stat = opened
    },
    data: (piece: Buffer) => {
      hintRead(piece.length)
      content = Buffer.concat([content, piece])
      if (content.length > SMALL_FILE_BYTES) throw new Error('the supervisor sent more than was asked for')
    },
  }
  const { done } = await readFile(sandbox, path, { sink, signal, length: SMALL_FILE_BYTES })
  await done
  return { stat, content }
}
