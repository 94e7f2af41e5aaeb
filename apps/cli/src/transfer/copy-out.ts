import { createWriteStream } from 'node:fs'
import { chmod, mkdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FileStream } from '@boxoffice/client'
import { type Progress, startProgress } from '../terminal/progress.ts'
import type { Copy } from './copy-in.ts'
import { bytesOf, type LocalPath, pathOf, pathOfArgument } from './local-path.ts'
import { unpackInto } from './unpack.ts'

/** Copies a file or a directory of the sandbox to this machine. A file appears whole or not at all. */
export const copyOut = async ({ files, from, to, signal }: Copy): Promise<void> => {
  const source = await files.stat(from, { follow: true, signal })
  const target = await targetPath(from, to)
  if (source.type === 'directory') {
    const progress = startProgress(basename(from), undefined)
    try {
      const archive = await files.downloadArchive(from, { signal })
      await unpackInto(target, Readable.from(counted(archive, progress)), signal)
    } finally {
      progress.stop()
    }
    return
  }
  const content = await files.stream(from, { signal })
  const progress = startProgress(basename(from), content.size)
  const partial = bytesOf(join(dirname(target), `.${basename(target)}.${process.pid}.part`))
  try {
    await mkdir(bytesOf(dirname(target)), { recursive: true })
    await pipeline(counted(content, progress), createWriteStream(partial), { signal })
    await chmod(partial, Number.parseInt(source.mode, 8) & 0o777)
    await rename(partial, bytesOf(target))
  } finally {
    progress.stop()
    await rm(partial, { force: true })
  }
}

const targetPath = async (from: string, argument: string): Promise<LocalPath> => {
  const to = pathOfArgument(argument)
  const isDirectory =
    to.endsWith('/') ||
    (await stat(bytesOf(to)).then(
      (found) => found.isDirectory(),
      () => false,
    ))
  // `cp t:. here` fills `here` itself: there is no name to keep.
  const name = pathOf(basename(from))
  return isDirectory && name !== '.' && name !== '..' && name !== '' ? join(to, name) : to
}

async function* counted({ stream }: FileStream, progress: Progress): AsyncGenerator<Uint8Array> {
  for await (const bytes of stream) {
    progress.advance(bytes.length)
    yield bytes
  }
}
