import { fileRootOf } from '@boxoffice/kit/file-root'
import { BoxofficeError, isCode } from '../base/errors.ts'
import type { Files } from '../sandbox/files.ts'
import { linesBetween, textDecoder, toBytes } from './text.ts'

type AtPath = { path: string; abortSignal?: AbortSignal | undefined }

/** The file methods of the AI SDK's `SandboxSession`: what is missing is `null`, or `false` for a deletion; everything else rejects. */
export type AiSandboxFiles = {
  readonly readFile: (options: AtPath) => Promise<ReadableStream<Uint8Array> | null>
  readonly readBinaryFile: (options: AtPath) => Promise<Uint8Array | null>
  readonly readTextFile: (options: AtPath & { encoding?: string; startLine?: number; endLine?: number }) => Promise<string | null>
  readonly writeFile: (options: AtPath & { content: ReadableStream<Uint8Array> }) => Promise<void>
  readonly writeBinaryFile: (options: AtPath & { content: Uint8Array }) => Promise<void>
  readonly writeTextFile: (options: AtPath & { content: string; encoding?: string }) => Promise<void>
  readonly stat: (options: AtPath) => Promise<{ type: 'file' | 'directory' | 'other'; size: number } | null>
  readonly listDirectory: (options: AtPath) => Promise<{ name: string; type: 'file' | 'directory' | 'symlink' | 'other' }[] | null>
  readonly deleteFile: (options: AtPath) => Promise<boolean>
}

export const aiSandboxFiles = (files: Files): AiSandboxFiles => {
  const readBinaryFile = ({ path, abortSignal }: AtPath): Promise<Uint8Array | null> =>
    orNull(files.download(path, { root: fileRootOf(path), signal: abortSignal }))
  const write = async ({ path, abortSignal }: AtPath, content: Uint8Array | ReadableStream<Uint8Array>): Promise<void> => {
    await files.upload(path, content, { root: fileRootOf(path), signal: abortSignal })
  }
  return {
    readBinaryFile,
    async readFile({ path, abortSignal }) {
      return (await orNull(files.stream(path, { root: fileRootOf(path), signal: abortSignal })))?.stream ?? null
    },
    async readTextFile({ encoding, startLine, endLine, ...at }) {
      const decoder = textDecoder(encoding)
      const bytes = await readBinaryFile(at)
      return bytes === null ? null : linesBetween(decoder.decode(bytes), startLine, endLine)
    },
    writeFile: ({ content, ...at }) => write(at, content),
    writeBinaryFile: ({ content, ...at }) => write(at, content),
    writeTextFile: async ({ content, encoding, ...at }) => write(at, toBytes(content, encoding)),
    async stat({ path, abortSignal }) {
      const found = await orNull(files.stat(path, { root: fileRootOf(path), follow: true, signal: abortSignal }))
      return found === null ? null : { type: found.type === 'symlink' ? 'other' : found.type, size: found.size }
    },
    async listDirectory({ path, abortSignal }) {
      const options = { root: fileRootOf(path), signal: abortSignal }
      // A listing of what is not a directory may be empty, or one entry.
      const found = await orNull(files.stat(path, { ...options, follow: true }))
      if (found === null) return null
      if (found.type !== 'directory') throw new BoxofficeError('NOT_A_DIRECTORY', `${path} is not a directory`, { status: 400 })
      const entries = await files.list(path, { ...options, type: 'any', depth: 1 })
      return entries.map(({ path: target, type }) => ({ name: target.slice(target.lastIndexOf('/') + 1), type }))
    },
    async deleteFile({ path, abortSignal }) {
      const options = { root: fileRootOf(path), signal: abortSignal }
      const found = await orNull(files.stat(path, options))
      if (found === null) return false
      if (found.type === 'directory') throw new BoxofficeError('IS_DIRECTORY', `${path} is a directory`, { status: 400 })
      await files.delete(path, options)
      return true
    },
  }
}

/** A missing file, or a directory on the way that is a file. */
const orNull = async <T>(answer: Promise<T>): Promise<T | null> => {
  try {
    return await answer
  } catch (error) {
    if (isCode(error, 'FILE_NOT_FOUND') || isCode(error, 'NOT_A_DIRECTORY')) return null
    throw error
  }
}
