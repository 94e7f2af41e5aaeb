import { createReadStream, type Stats } from 'node:fs'
import { lstat, opendir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { tarHeader, tarPadding } from '@boxoffice/agent/byte-names'
import { UsageError } from '../settings/usage-error.ts'
import { bytesOf, type LocalPath, textOf } from './local-path.ts'

/** What two empty blocks are: the end of an archive. */
const END = Buffer.alloc(1024)

/**
 * A directory of this machine as a tar stream: files, directories and links (as links), depth first, with names byte for byte. Sockets,
 * pipes and devices are left out.
 */
export async function* archiveOf(root: LocalPath, signal: AbortSignal): AsyncGenerator<Buffer> {
  yield* entriesBelow(root, '', signal)
  yield END
}

async function* entriesBelow(root: LocalPath, below: LocalPath, signal: AbortSignal): AsyncGenerator<Buffer> {
  for await (const { name: last } of await opendir(bytesOf(join(root, below)), { encoding: 'latin1' })) {
    signal.throwIfAborted()
    const path = join(below, last)
    const here = join(root, path)
    const found = await lstat(bytesOf(here))
    const entry = { name: bytesOf(path), mode: found.mode & 0o777, mtimeMs: found.mtimeMs }
    if (found.isDirectory()) {
      yield tarHeader({ ...entry, type: 'directory' })
      yield* entriesBelow(root, path, signal)
    } else if (found.isSymbolicLink()) {
      yield tarHeader({ ...entry, type: 'symlink', target: await readlink(bytesOf(here), 'buffer') })
    } else if (found.isFile()) {
      yield tarHeader({ ...entry, type: 'file', size: found.size })
      yield* contentOf(here, found)
      yield tarPadding(found.size)
    }
  }
}

/** A file that grows meanwhile ends where the header says. */
async function* contentOf(path: LocalPath, { size }: Stats): AsyncGenerator<Buffer> {
  if (size === 0) return
  let bytes = 0
  for await (const chunk of createReadStream(bytesOf(path), { end: size - 1 }) as AsyncIterable<Buffer>) {
    bytes += chunk.length
    yield chunk
  }
  if (bytes < size) throw new UsageError(`${textOf(path)} became shorter while it was read; copy again`)
}
