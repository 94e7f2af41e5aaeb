import type { Readable, Writable } from 'node:stream'
import { BoxofficeError } from '@boxoffice/protocol'
import { extract, type Header } from 'tar-stream'
import { fileNameText } from '../../files/file-name.ts'
import { fileCall, statFile, writeFile } from '../../files/files.ts'
import { below, entryBelow, type SandboxPath } from '../../files/paths.ts'
import type { UploadLimit } from '../../http/upload-limit.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { limitedBody } from './limited-body.ts'

const MAX_ENTRIES = 100_000
const LOOK_EVERY_ENTRIES = 64
/** One character for each byte, whatever the name was meant to be. */
const NAME_ENCODING = 'latin1'

type Context = {
  sandbox: Sandbox
  directory: SandboxPath
  signal: AbortSignal
  /** Directories known to be real ones, not links. */
  real: Set<string>
}

/** Unpacks a tar stream below a directory. An entry that could leave it is refused before anything of it is written (contract 3.9). */
export const receiveArchive = async (
  sandbox: Sandbox,
  directory: SandboxPath,
  { body, limit, fits, signal }: { body: Readable; limit: UploadLimit; fits: () => void; signal: AbortSignal },
): Promise<{ files: number; bytes: number }> => {
  const context: Context = { sandbox, directory, signal, real: new Set() }
  let files = 0
  let bytes = 0
  if (directory.path !== '')
    await fileCall(sandbox, { op: 'mkdir', root: directory.root, path: directory.path, parents: true }, { given: directory.given, signal })
  // Its types do not know this one.
  const unpack = extract({ filenameEncoding: NAME_ENCODING } as object)
  const gate = limitedBody(body, limit, fits)
  gate.on('error', (error) => unpack.destroy(error))
  gate.pipe(unpack as unknown as Writable)
  try {
    for await (const entry of unpack) {
      // Directories and empty files take inodes, however few bytes there are.
      if (files % LOOK_EVERY_ENTRIES === 0) fits()
      if (++files > MAX_ENTRIES) throw new BoxofficeError('INVALID_REQUEST', `archive: at most ${MAX_ENTRIES} entries`)
      bytes += await unpackEntry(context, withTextNames(entry.header), entry as AsyncIterable<Buffer>)
      entry.resume()
    }
  } catch (error) {
    if (error instanceof BoxofficeError) throw error
    if (signal.aborted) throw signal.reason
    throw new BoxofficeError('INVALID_REQUEST', 'archive: not a valid tar stream', { cause: error })
  } finally {
    // Only our end: the body's own socket still has to carry the response.
    body.unpipe(gate)
    gate.destroy()
  }
  return { files, bytes }
}

const unpackEntry = async (context: Context, header: Header, content: AsyncIterable<Buffer>): Promise<number> => {
  const { sandbox, directory, signal } = context
  const name = cleanName(header.name)
  if (name === '') return 0
  const target = entryBelow(directory, name)
  const { root, path, given } = target
  await assertRealParents(context, name)
  switch (header.type) {
    case 'directory':
      await fileCall(sandbox, { op: 'mkdir', root, path, parents: true, mode: modeOf(header) }, { given, signal })
      return 0
    case 'symlink':
      await fileCall(sandbox, { op: 'symlink', root, path, target: header.linkname ?? '', replace: true }, { given, signal })
      return 0
    case 'file':
    case 'contiguous-file':
      return storeEntry(context, target, { header, content })
    default:
      throw new BoxofficeError(
        'INVALID_PATH',
        `archive: entry ${JSON.stringify(header.name)} is a ${header.type}; only files, directories and symbolic links`,
      )
  }
}

const storeEntry = async (
  { sandbox, signal }: Context,
  path: SandboxPath,
  { header, content }: { header: Header; content: AsyncIterable<Buffer> },
): Promise<number> => {
  const { channel, result } = await writeFile(sandbox, path, { overwrite: true, follow: false, mode: modeOf(header), signal })
  try {
    for await (const chunk of content) if (!channel.write(chunk)) await channel.drained(signal)
    channel.writeEnd()
    return (await result).size
  } catch (error) {
    channel.destroy()
    // The sandbox's own refusal says more than the stream that broke over it.
    await Promise.race([result, Promise.resolve()])
    throw error
  }
}

/** Nothing in an archive sets more than permission bits. */
const modeOf = ({ mode }: Header): number => mode & 0o777

const withTextNames = (header: Header): Header => {
  const { path, linkpath } = (header.pax ?? {}) as { path?: string; linkpath?: string }
  return { ...header, name: nameText(header.name, path), linkname: nameText(header.linkname ?? '', linkpath) }
}

/** Names in pax headers are UTF-8; of others nobody can tell what was meant. The decoder leaves U+FFFD in their place. */
const nameText = (bytes: string, pax: string | undefined): string => {
  if (!pax) return fileNameText(Buffer.from(bytes, NAME_ENCODING))
  if (pax.includes('\ufffd')) throw new BoxofficeError('INVALID_PATH', `archive: entry ${JSON.stringify(pax)} is not UTF-8`)
  return fileNameText(Buffer.from(pax))
}

const cleanName = (name: string): string => {
  const bad = (why: string): BoxofficeError => new BoxofficeError('INVALID_PATH', `archive: entry ${JSON.stringify(name)} ${why}`)
  if (name.startsWith('/')) throw bad('is absolute')
  if (name.includes('\0')) throw bad('contains NUL')
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..')) throw bad('contains ".."')
  return parts.join('/')
}

/** An archive must not write through a link, whether its own or one that was there. The supervisor keeps it inside the root in any case. */
const assertRealParents = async ({ sandbox, directory, signal, real }: Context, name: string): Promise<void> => {
  const parts = name.split('/')
  for (let count = 1; count < parts.length; count++) {
    const parent = parts.slice(0, count).join('/')
    if (real.has(parent)) continue
    const stat = await statFile(sandbox, below(directory, parent), { follow: false, signal }).catch((error: unknown) => {
      if (error instanceof BoxofficeError && error.code === 'FILE_NOT_FOUND') return undefined
      throw error
    })
    if (stat === undefined) return
    if (stat.type !== 'directory')
      throw new BoxofficeError(
        'INVALID_PATH',
        `archive: entry ${JSON.stringify(name)} goes through ${JSON.stringify(parent)}, which is not a directory`,
      )
    real.add(parent)
  }
}
