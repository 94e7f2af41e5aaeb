import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { hintRead } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import { fileNameBytes } from '../../files/file-name.ts'
import { readFile, statFile } from '../../files/files.ts'
import { type ListEntry, listTree } from '../../files/listing.ts'
import type { SandboxPath } from '../../files/paths.ts'
import { TAR_BLOCK, tarHeader, tarPadding } from '../../files/tar-header.ts'
import type { Call } from '../../http/call.ts'
import { BodyWriter } from '../../http/responses/body-writer.ts'
import { cutStalledClient, DOWNLOAD_STALL_MS } from '../../http/responses/stalled-client.ts'
import type { Channel } from '../../supervisor/link.ts'
import type { FileStat } from '../../supervisor/payloads.ts'
import { type ArchiveEntry, archiveEntries } from './archive-entries.ts'

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
    let index = 0
    for (const entry of archiveEntries(call, path, entries)) {
      signal.throwIfAborted()
      // Directories wait for nothing, and a client that reads fast never makes them.
      if (index++ % ENTRIES_AT_ONCE === 0) await setImmediate()
      await drained(call)
      await addEntry(call, { ...entry, body, reading })
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
type Item = ArchiveEntry & { body: BodyWriter; reading: Reading }

const addEntry = async (call: Call, item: Item): Promise<void> => {
  const { body, entry } = item
  try {
    if (entry.type === 'directory') body.write(tarHeader({ ...common(entry), type: 'directory' }))
    else if (entry.type === 'symlink') await addLink(item)
    else if (entry.type === 'file') await addFile(call, item)
  } catch (error) {
    // What went between the listing and now is not in the archive; what cannot be read fails it.
    if (error instanceof BoxofficeError && error.code === 'FILE_NOT_FOUND') return
    throw error
  }
}

const common = ({ path, mode, mtimeMs }: ListEntry) => ({ name: fileNameBytes(path), mode: mode & 0o777, mtimeMs })

const addLink = async ({ body, entry, ahead }: Item): Promise<void> => {
  const target = (await ahead)?.stat?.target
  if (typeof target === 'string') body.write(tarHeader({ ...common(entry), type: 'symlink', target: fileNameBytes(target) }))
}

const addFile = async ({ sandbox, signal, outgoing }: Call, { body, reading, entry, path, ahead }: Item): Promise<void> => {
  let size = 0
  const begin = (bytes: number): void => {
    size = bytes
    body.write(tarHeader({ ...common(entry), type: 'file', size }))
  }
  const small = await ahead
  // One that has grown since it was listed is read as the large ones are.
  if (small !== undefined && small.content.length === small.stat?.size) {
    begin(small.content.length)
    body.write(small.content)
    return body.write(tarPadding(size))
  }
  const sink = {
    opened: (stat: FileStat) => begin(stat.size),
    data: (piece: Buffer) => {
      hintRead(piece.length)
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
