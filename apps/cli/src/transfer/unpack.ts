import { createWriteStream } from 'node:fs'
import { chmod, lstat, mkdir, rm, symlink } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { extract, type Header } from 'tar-stream'
import { UsageError } from '../settings/usage-error.ts'
import { bytesOf, type LocalPath, textOf } from './local-path.ts'

/**
 * Unpacks what a sandbox sent, and trusts none of it: nothing is written outside `root`, nor through a link below it.
 * Links are made last, so that no entry of the archive can be written through one of them. Hard links and special files are
 * left out; set-uid bits are dropped. Names are taken byte for byte, UTF-8 or not.
 */
export const unpackInto = async (root: LocalPath, archive: Readable, signal: AbortSignal): Promise<void> => {
  await mkdir(bytesOf(root), { recursive: true })
  const links: { path: string; target: string }[] = []
  const modes: { path: string; mode: number }[] = []
  // Its types do not know this one.
  const entries = extract({ filenameEncoding: 'latin1' } as object)
  // An archive that breaks off ends whatever waits for the rest of an entry.
  const broken = new AbortController()
  const reading = AbortSignal.any([signal, broken.signal])
  // tar-stream's streams are not Node's, but work as such.
  const read = pipeline(archive, entries as unknown as NodeJS.WritableStream, { signal })
  read.catch((error: unknown) => broken.abort(error))
  const one = async (entry: AsyncIterable<Uint8Array>, header: Header) => {
    const path = await placeFor(root, nameOf(header))
    if (header.type === 'directory') {
      await mkdir(bytesOf(path), { recursive: true })
      modes.push({ path, mode: permissions(header) | 0o700 })
    } else if (header.type === 'file' || header.type === 'contiguous-file') {
      await mkdir(bytesOf(dirname(path)), { recursive: true })
      await removeUnlessDirectory(path)
      await pipeline(entry, createWriteStream(bytesOf(path), { flags: 'wx', mode: permissions(header) }), { signal: reading })
    } else if (header.type === 'symlink') {
      links.push({ path, target: targetOf(header) })
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
    await placeFor(root, path.slice(root.length + 1))
    await mkdir(bytesOf(dirname(path)), { recursive: true })
    await removeUnlessDirectory(path)
    await symlink(bytesOf(target), bytesOf(path))
  }
  for (const { path, mode } of modes.reverse()) if (!(await isLink(path))) await chmod(bytesOf(path), mode)
}

type PaxNames = { path?: string; linkpath?: string } | null | undefined

const nameOf = ({ name, pax }: Header): string => ((pax as PaxNames)?.path ? asBytes(name) : name)

const targetOf = ({ linkname, pax }: Header): string => {
  const target = linkname ?? ''
  return (pax as PaxNames)?.linkpath ? asBytes(target) : target
}

/** A path as it is held here, of text. What the decoder gives is so already, but for pax headers. */
const asBytes = (path: string): LocalPath => Buffer.from(path).toString('latin1')

/** Where an entry goes; refuses names that leave `root` and parents that are links. */
const placeFor = async (root: string, name: string): Promise<string> => {
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..') || name.includes('\0') || (sep === '\\' && name.includes('\\'))) {
    throw new UsageError(`the archive holds ${JSON.stringify(textOf(name))}, which would leave ${textOf(root)}; nothing more was written`)
  }
  let parent = root
  for (const part of parts.slice(0, -1)) {
    parent = join(parent, part)
    if (await isLink(parent)) throw new UsageError(`${textOf(parent)} is a link; remove it first, nothing is written through it`)
  }
  return join(root, ...parts)
}

const isLink = async (path: string): Promise<boolean> => {
  const found = await lstat(bytesOf(path)).catch(() => undefined)
  return found?.isSymbolicLink() ?? false
}

const removeUnlessDirectory = async (path: string): Promise<void> => {
  const found = await lstat(bytesOf(path)).catch(() => undefined)
  if (found === undefined) return
  if (found.isDirectory()) throw new UsageError(`${textOf(path)} is a directory here and a file there; remove it first`)
  await rm(bytesOf(path))
}

const permissions = ({ mode }: Pick<Header, 'mode'>): number => (mode ?? 0o644) & 0o777
