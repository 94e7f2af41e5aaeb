import { createWriteStream } from 'node:fs'
import { chmod, lstat, mkdir, rm, symlink } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { extract, type Header } from 'tar-stream'
import { UsageError } from '../settings/usage-error.ts'

/**
 * Unpacks what a sandbox sent, and trusts none of it: nothing is written outside `root`, nor through a link below it.
 * Links are made last, so that no entry of the archive can be written through one of them. Hard links and special files are
 * left out; set-uid bits are dropped.
 */
export const unpackInto = async (root: string, archive: Readable, signal: AbortSignal): Promise<void> => {
  await mkdir(root, { recursive: true })
  const links: { path: string; target: string }[] = []
  const modes: { path: string; mode: number }[] = []
  const entries = extract()
  // An archive that breaks off ends whatever waits for the rest of an entry.
  const broken = new AbortController()
  const reading = AbortSignal.any([signal, broken.signal])
  // tar-stream's streams are not Node's, but work as such.
  const read = pipeline(archive, entries as unknown as NodeJS.WritableStream, { signal })
  read.catch((error: unknown) => broken.abort(error))
  const one = async (entry: AsyncIterable<Uint8Array>, header: Header) => {
    const path = await placeFor(root, header)
    if (header.type === 'directory') {
      await mkdir(path, { recursive: true })
      modes.push({ path, mode: permissions(header) | 0o700 })
    } else if (header.type === 'file' || header.type === 'contiguous-file') {
      await mkdir(dirname(path), { recursive: true })
      await removeUnlessDirectory(path)
      await pipeline(entry, createWriteStream(path, { flags: 'wx', mode: permissions(header) }), { signal: reading })
    } else if (header.type === 'symlink') {
      links.push({ path, target: header.linkname ?? '' })
    }
  }
  try {
    for await (const entry of entries) {
      await one(entry as unknown as AsyncIterable<Uint8Array>, entry.header)
      entry.resume()
    }
    await read
  } catch (error) {
    reading.throwIfAborted()
    throw error
  }
  for (const { path, target } of links) {
    await placeFor(root, { name: path.slice(root.length + 1) })
    await mkdir(dirname(path), { recursive: true })
    await removeUnlessDirectory(path)
    await symlink(target, path)
  }
  for (const { path, mode } of modes.reverse()) if (!(await isLink(path))) await chmod(path, mode)
}

/** Where an entry goes; refuses names that leave `root` and parents that are links. */
const placeFor = async (root: string, { name }: Pick<Header, 'name'>): Promise<string> => {
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..') || name.includes('\0') || (sep === '\\' && name.includes('\\'))) {
    throw new UsageError(`the archive holds ${JSON.stringify(name)}, which would leave ${root}; nothing more was written`)
  }
  let parent = root
  for (const part of parts.slice(0, -1)) {
    parent = join(parent, part)
    if (await isLink(parent)) throw new UsageError(`${parent} is a link; remove it first, nothing is written through it`)
  }
  return join(root, ...parts)
}

const isLink = async (path: string): Promise<boolean> => {
  const found = await lstat(path).catch(() => undefined)
  return found?.isSymbolicLink() ?? false
}

const removeUnlessDirectory = async (path: string): Promise<void> => {
  const found = await lstat(path).catch(() => undefined)
  if (found === undefined) return
  if (found.isDirectory()) throw new UsageError(`${path} is a directory here and a file there; remove it first`)
  await rm(path)
}

const permissions = ({ mode }: Pick<Header, 'mode'>): number => (mode ?? 0o644) & 0o777
