import { posix } from 'node:path'
import { isCode, BoxofficeError as SdkError, type Session } from '@boxoffice/client'
import { fileRootOf } from '@boxoffice/kit/file-root'
import type { FileDownloadResponse, FileInfo, FileOperationError, FileUploadResponse } from 'deepagents'
import { toBoxofficeError } from './errors.ts'
import { isEnded } from './execute.ts'
import { type Patience, patiently } from './patience.ts'

/** Writes files in turn; each has its own result, with the path as it was given. `map` gives the path of the sandbox. */
export const uploadFiles = async (
  session: Session,
  files: readonly (readonly [string, string | Uint8Array])[],
  { map, overwrite = true, ...patience }: Patience & { map(path: string): string; overwrite?: boolean },
): Promise<FileUploadResponse[]> => {
  const responses: FileUploadResponse[] = []
  for (const [path, content] of files) {
    const mapped = map(path)
    const options = { root: fileRootOf(mapped), overwrite, signal: patience.signal }
    const upload = () => session.files.upload(mapped, content, options)
    responses.push({ path, error: await errorOf(patiently(upload, patience)) })
  }
  return responses
}

/** Reads files in turn, each into memory if it has at most `maxBytes`. */
export const downloadFiles = async (
  session: Session,
  paths: readonly string[],
  { map, maxBytes, ...patience }: Patience & { map(path: string): string; maxBytes: number },
): Promise<FileDownloadResponse[]> => {
  const responses: FileDownloadResponse[] = []
  for (const path of paths) {
    let content: Uint8Array | null = null
    const download = async () => {
      content = await readWhole(session, map(path), maxBytes, patience.signal)
    }
    const error = await errorOf(patiently(download, patience))
    responses.push({ path, content: error === null ? content : null, error })
  }
  return responses
}

const readWhole = async (session: Session, path: string, maxBytes: number, signal: AbortSignal | undefined): Promise<Uint8Array> => {
  const { stream, size } = await session.files.stream(path, { root: fileRootOf(path), signal })
  if (size !== undefined && size > maxBytes) {
    await stream.cancel()
    throw new SdkError('PAYLOAD_TOO_LARGE', `${path} has ${size} bytes, more than maxDownloadBytes (${maxBytes})`)
  }
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

/** The entries of a directory, as `ls` of deepagents gives them; one that is missing has none. */
export const listDirectory = async (session: Session, path: string, patience: Patience): Promise<FileInfo[]> => {
  const options = { root: fileRootOf(path), type: 'any', depth: 1, signal: patience.signal } as const
  try {
    const entries = await patiently(() => session.files.list(path, options), patience)
    return entries.map((entry) => {
      // Entries of the workspace are named from there, and others from `/`.
      const full = `${path === '/' ? '' : path}/${posix.basename(entry.path)}`
      const isDirectory = entry.type === 'directory'
      return { path: isDirectory ? `${full}/` : full, is_dir: isDirectory, size: entry.size, modified_at: entry.mtime }
    })
  } catch (error) {
    if (isFileError(error)) return []
    throw toBoxofficeError(error)
  }
}

/** Removes a file, a link, or a directory with all that is in it. Gives null when it is gone. */
export const deletePath = (session: Session, path: string, patience: Patience): Promise<FileOperationError | null> =>
  errorOf(patiently(() => session.files.delete(path, { root: fileRootOf(path), recursive: true, signal: patience.signal }), patience))

/** Null when the work is done, or the error by which deepagents knows what happened. What is not of the file is thrown. */
const errorOf = async (work: Promise<unknown>): Promise<FileOperationError | null> => {
  try {
    await work
    return null
  } catch (error) {
    if (isCode(error, 'FILE_EXISTS')) return null
    if (!isFileError(error)) throw toBoxofficeError(error)
    if (isCode(error, 'FILE_NOT_FOUND')) return 'file_not_found'
    if (isCode(error, 'PERMISSION_DENIED') || isCode(error, 'READ_ONLY')) return 'permission_denied'
    return isCode(error, 'IS_DIRECTORY') || isCode(error, 'NOT_A_FILE') ? 'is_directory' : 'invalid_path'
  }
}

/** What is said of one file, and not of the session, its credentials or the way to it. */
const isFileError = (error: unknown): boolean => {
  if (!(error instanceof SdkError) || isEnded(error)) return false
  const { status, code } = error
  if (status === undefined) return code === 'PAYLOAD_TOO_LARGE' || code === 'INVALID_REQUEST'
  // A full workspace (507) is one too.
  return (
    status !== 401 && status !== 503 && status !== 504 && !['FORBIDDEN', 'CAPABILITY_DENIED', 'NOT_FOUND', 'RATE_LIMITED'].includes(code)
  )
}
