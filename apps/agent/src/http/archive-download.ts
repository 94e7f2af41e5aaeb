import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { countRead } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import { fileNameBytes } from '../sandbox/file-name.ts'
import { readFile, statFile } from '../sandbox/files.ts'
import { type ListEntry, listTree } from '../sandbox/listing.ts'
import { below, type SandboxPath } from '../sandbox/paths.ts'
import type { Channel } from '../supervisor/link.ts'
import type { FileStat } from '../supervisor/payloads.ts'
import { BodyWriter } from './body-writer.ts'
import type { Call } from './call.ts'
import { cutStalledClient, DOWNLOAD_STALL_MS } from './stalled-client.ts'
import { TAR_BLOCK, tarHeader, tarPadding } from './tar-header.ts'

const MAX_ENTRIES = 100_000
/** Between this many the dataplane has its turn. */
const ENTRIES_AT_ONCE = 64

/** `GET D/files/download?archive=tar`: links stay links, special files are left out. */
export const sendArchive = async (call: Call, path: SandboxPath): Promise<void> => {
  const { sandbox, signal, outgoing, incoming } = call
  const stat = await statFile(sandbox, path, { follow: true, signal })
  if (stat.type !== 'directory')
    throw new BoxofficeError('NOT_A_DIRECTORY', `${JSON.stringify(path.given)} is not a directory; leave archive away`)
  const { entries, truncated } = await listTree(sandbox, path, { limit: MAX_ENTRIES, signal })
  if (truncated)
    throw new BoxofficeError(
      'INVALID_REQUEST',
      `archive: the directory has more than ${MAX_ENTRIES} entries, or some below more than 256 parts`,
    )
  outgoing.writeHead(200, { 'Content-Type': 'application/x-tar' })
  if (incoming.method === 'HEAD') return void outgoing.end()
  cutStalledClient(outgoing, DOWNLOAD_STALL_MS)
  const reading: Reading = { channel: undefined }
  const body = new BodyWriter(outgoing, () => reading.channel?.pause())
  const onDrain = (): void => reading.channel?.resume()
  outgoing.on('drain', onDrain)
  try {
    for (const [index, entry] of entries.entries()) {
      signal.throwIfAborted()
      // Directories wait for nothing, and a client that reads fast never makes them.
      if (index % ENTRIES_AT_ONCE === 0) await setImmediate()
      await drained(call)
      await addEntry(call, { body, reading, entry, path: below(path, entry.path) })
    }
  } finally {
    outgoing.off('drain', onDrain)
  }
  body.write(Buffer.alloc(2 * TAR_BLOCK))
  body.flush()
  outgoing.end()
}

/** When the client has caught up. */
const drained = async ({ outgoing, signal }: Call): Promise<void> => {
  if (!outgoing.writableNeedDrain) return
  try {
    await once(outgoing, 'drain', { signal })
  } catch (error) {
    signal.throwIfAborted()
    throw error
  }
}

/** The channel of the file that is being read. */
type Reading = { channel: Channel | undefined }
type Item = { body: BodyWriter; reading: Reading; entry: ListEntry; path: SandboxPath }

const addEntry = async (call: Call, item: Item): Promise<void> => {
  const { body, entry } = item
  try {
    if (entry.type === 'directory') body.write(tarHeader({ ...common(entry), type: 'directory' }))
    else if (entry.type === 'symlink') await addLink(call, item)
    else if (entry.type === 'file') await addFile(call, item)
  } catch (error) {
    // What went between the listing and now is not in the archive; what cannot be read fails it.
    if (error instanceof BoxofficeError && error.code === 'FILE_NOT_FOUND') return
    throw error
  }
}

const common = ({ path, mode, mtimeMs }: ListEntry) => ({ name: fileNameBytes(path), mode: mode & 0o777, mtimeMs })

const addLink = async ({ sandbox, signal }: Call, { body, entry, path }: Item): Promise<void> => {
  const { target } = await statFile(sandbox, path, { follow: false, signal })
  if (typeof target === 'string') body.write(tarHeader({ ...common(entry), type: 'symlink', target: fileNameBytes(target) }))
}

const addFile = async ({ sandbox, signal, outgoing }: Call, { body, reading, entry, path }: Item): Promise<void> => {
  let size = 0
  const sink = {
    opened: (stat: FileStat) => {
      size = stat.size
      body.write(tarHeader({ ...common(entry), type: 'file', size }))
    },
    data: (piece: Buffer) => {
      countRead(piece.length)
      body.write(piece)
    },
  }
  const { channel, done } = await readFile(sandbox, path, { sink, signal })
  reading.channel = channel
  // The client may have fallen behind before there was anything to hold back.
  if (outgoing.writableNeedDrain) channel.pause()
  try {
    await done
  } finally {
    reading.channel = undefined
  }
  body.write(tarPadding(size))
}
