import { once } from 'node:events'
import { countRead } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import { pack as createPack, type Pack } from 'tar-stream'
import { readFile, statFile } from '../sandbox/files.ts'
import { type ListEntry, listTree } from '../sandbox/listing.ts'
import { below, type SandboxPath } from '../sandbox/paths.ts'
import type { Channel } from '../supervisor/link.ts'
import type { FileStat } from '../supervisor/payloads.ts'
import type { Call } from './call.ts'
import { cutStalledClient, DOWNLOAD_STALL_MS } from './stalled-client.ts'

const MAX_ENTRIES = 100_000

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
  const pack = createPack()
  pack.pipe(outgoing)
  signal.addEventListener('abort', () => pack.destroy(), { once: true })
  for (const entry of entries) await addEntry(call, pack, { entry, path: below(path, entry.path) })
  pack.finalize()
}

type Item = { entry: ListEntry; path: SandboxPath }

const addEntry = async (call: Call, pack: Pack, item: Item): Promise<void> => {
  const { entry } = item
  const common = { name: entry.path, mode: entry.mode & 0o777, mtime: new Date(entry.mtimeMs) }
  try {
    if (entry.type === 'directory') pack.entry({ ...common, type: 'directory' })
    else if (entry.type === 'symlink') await addLink(call, pack, { ...item, common })
    else if (entry.type === 'file') await addFile(call, pack, { ...item, common })
  } catch (error) {
    // What went between the listing and now is not in the archive; what cannot be read fails it.
    if (error instanceof BoxofficeError && error.code === 'FILE_NOT_FOUND') return
    throw error
  }
}

type Common = { name: string; mode: number; mtime: Date }

const addLink = async ({ sandbox, signal }: Call, pack: Pack, { path, common }: Item & { common: Common }): Promise<void> => {
  const { target } = await statFile(sandbox, path, { follow: false, signal })
  if (typeof target === 'string') pack.entry({ ...common, type: 'symlink', linkname: target })
}

const addFile = async ({ sandbox, signal }: Call, pack: Pack, { path, common }: Item & { common: Common }): Promise<void> => {
  let channel: Channel | undefined
  let entry: ReturnType<Pack['entry']> | undefined
  const sink = {
    opened: (stat: FileStat) => {
      entry = pack.entry({ ...common, size: stat.size })
      entry.on('drain', () => channel?.resume())
    },
    data: (piece: Buffer) => {
      countRead(piece.length)
      if (entry?.write(Buffer.from(piece)) === false) channel?.pause()
    },
  }
  const reading = await readFile(sandbox, path, { sink, signal })
  channel = reading.channel
  await reading.done
  if (entry === undefined) return
  const closed = once(entry, 'close')
  entry.end(null)
  await closed
}
