import { createReadStream, type Stats } from 'node:fs'
import { lstat, opendir, readlink, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { type Files, isCode } from '@boxoffice/client'
import { type Pack, pack } from 'tar-stream'
import { startProgress } from '../terminal/progress.ts'

export type Copy = { files: Files; from: string; to: string; signal: AbortSignal }

/** Copies a file or a directory of this machine into the sandbox. */
export const copyIn = async ({ files, from, to, signal }: Copy): Promise<void> => {
  const source = await stat(from)
  const target = await targetPath(files, from, to, signal)
  if (source.isDirectory()) return await copyDirectory({ files, from, to: target, signal })
  const progress = startProgress(basename(from), source.size)
  try {
    const content = counted(createReadStream(from), (bytes) => progress.advance(bytes))
    await files.upload(target, content, { mode: octal(source.mode), signal })
  } finally {
    progress.stop()
  }
}

/** Into a directory that exists, or that is written with a slash, things keep their own name. */
const targetPath = async (files: Files, from: string, to: string, signal: AbortSignal): Promise<string> => {
  const name = basename(resolve(from))
  if (to.endsWith('/')) return `${to}${name}`
  try {
    const { type } = await files.stat(to, { follow: true, signal })
    return type === 'directory' ? `${to}/${name}` : to
  } catch (error) {
    if (isCode(error, 'FILE_NOT_FOUND')) return to
    throw error
  }
}

const copyDirectory = async ({ files, from, to, signal }: Copy): Promise<void> => {
  const progress = startProgress(basename(resolve(from)), undefined)
  const archive = pack()
  // Its error is the archive's too: whoever reads the archive gets it.
  packDirectory(archive, from, '', signal).then(
    () => archive.finalize(),
    (error: Error) => archive.destroy(error),
  )
  try {
    await files.uploadArchive(
      to,
      counted(archive as AsyncIterable<Uint8Array>, (bytes) => progress.advance(bytes)),
      { signal },
    )
  } finally {
    archive.destroy()
    progress.stop()
  }
}

/** Files, directories and links (as links), depth first. Sockets, pipes and devices are left out. */
const packDirectory = async (archive: Pack, root: string, below: string, signal: AbortSignal): Promise<void> => {
  for await (const { name } of await opendir(join(root, below))) {
    signal.throwIfAborted()
    const path = join(below, name)
    const found = await lstat(join(root, path))
    if (found.isDirectory()) {
      await entry(archive, { name: path, type: 'directory', ...attributes(found) })
      await packDirectory(archive, root, path, signal)
    } else if (found.isSymbolicLink()) {
      await entry(archive, { name: path, type: 'symlink', linkname: await readlink(join(root, path)), ...attributes(found) })
    } else if (found.isFile()) {
      await packFile(archive, join(root, path), path, found)
    }
  }
}

const packFile = async (archive: Pack, from: string, name: string, { size, ...found }: Stats): Promise<void> => {
  // tar-stream's streams are not Node's, but work as such.
  const target = archive.entry({ name, size, ...attributes(found) }) as unknown as NodeJS.WritableStream
  // A file that grows meanwhile ends where the header says; one that shrinks makes the archive fail.
  if (size === 0) target.end()
  else await pipeline(createReadStream(from, { end: size - 1 }), target)
}

const entry = (archive: Pack, header: Parameters<Pack['entry']>[0]): Promise<void> =>
  new Promise((resolve, reject) => archive.entry(header, (error) => (error ? reject(error) : resolve())))

const attributes = ({ mode, mtime }: Pick<Stats, 'mode' | 'mtime'>) => ({ mode: mode & 0o777, mtime })

const octal = (mode: number): string => (mode & 0o777).toString(8).padStart(4, '0')

async function* counted(source: AsyncIterable<Uint8Array>, count: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  for await (const bytes of source) {
    count(bytes.length)
    yield bytes
  }
}
