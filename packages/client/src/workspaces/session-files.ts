import picomatch from 'picomatch'
import { isCode } from '../base/errors.ts'
import type { FileRequest } from './file-helper.ts'
import { filePath } from './file-path.ts'
import { tell, tellRefused } from './logger.ts'
import { ensureDirectory, type Place, placeOf, type WorkspaceOptions } from './workspace.ts'
import { errorOfFault, workspaceError } from './workspace-error.ts'

export type ListSessionFilesOptions = WorkspaceOptions & {
  /** `*.json` is for names at any depth, one with a slash for whole paths; default everything. */
  pattern?: string | undefined
}
export type WriteSessionFileOptions = WorkspaceOptions & { overwrite?: boolean | undefined }
export type DeleteSessionPathOptions = WorkspaceOptions & { recursive?: boolean | undefined }

/** The files of a session, not its directories: relative, with slashes, sorted. A session without a workspace has none. */
export const listSessionFiles = async (sessionId: string, options: ListSessionFilesOptions = {}): Promise<string[]> => {
  const place = placeOf(sessionId, options)
  const { pattern, logger } = options
  const matches = matcher(pattern)
  const files = (await entriesOf(place)).filter(({ type, path }) => type === 'f' && matches(path)).map(({ path }) => path)
  tell(logger, 'session.file.list', { session_id: sessionId, pattern: pattern ?? null, count: files.length })
  return files
}

export const readSessionFile = async (sessionId: string, path: string, options: WorkspaceOptions = {}): Promise<Buffer> =>
  await at(sessionId, path, options, async (place, inside) => {
    const { content } = await place.helpers.ask({ directory: place.directory, op: 'read', path: inside })
    tell(options.logger, 'session.file.read', { session_id: sessionId, path, size_bytes: content.length })
    return content
  })

/** Whole or not at all; strings as UTF-8, parents are made. Without `overwrite` it refuses every file that is there [1-49]. */
export const writeSessionFile = async (
  sessionId: string,
  path: string,
  data: string | Uint8Array,
  options: WriteSessionFileOptions = {},
): Promise<void> =>
  await at(sessionId, path, options, async (place, inside) => {
    const bytes = typeof data === 'string' ? Buffer.from(data) : data
    const { overwrite = true, logger } = options
    if (inside === '') throw workspaceError('INVALID_PATH', `Path '${path}' is the session workspace itself; give the path of a file in it`)
    await ensureDirectory(place.directory)
    await place.helpers.ask({ directory: place.directory, op: 'write', path: inside, overwrite, size: bytes.length }, bytes)
    tell(logger, 'session.file.write', { session_id: sessionId, path, size_bytes: bytes.length })
  })

/** A file, a link (its target stays), an empty directory, or with `recursive` a full one. Never the workspace itself [1-52]. */
export const deleteSessionPath = async (sessionId: string, path: string, options: DeleteSessionPathOptions = {}): Promise<void> =>
  await at(sessionId, path, options, async (place, inside) => {
    if (inside === '')
      throw workspaceError('INVALID_PATH', `Path '${path}' is the session workspace itself; deleteSessionWorkspace deletes that`)
    await place.helpers.ask({ directory: place.directory, op: 'remove', path: inside, recursive: options.recursive ?? false })
    tell(options.logger, 'session.file.delete', { session_id: sessionId, path })
  })

export type Entry = { path: string; type: 'f' | 'd' | 'l' | 'o'; size: number; mtimeMs: number }

/** Everything in a workspace, sorted by path; its cost is that of this one session [1-44]. */
export const entriesOf = async ({ directory, helpers }: Pick<Place, 'directory' | 'helpers'>): Promise<Entry[]> => {
  const list: FileRequest = { directory, op: 'list', limit: Number.MAX_SAFE_INTEGER }
  const { content } = await helpers.ask(list).catch((error: unknown) => {
    const told = errorOfFault(error, '.')
    if (isCode(told, 'FILE_NOT_FOUND')) return { content: Buffer.alloc(0) }
    throw told
  })
  const entries = content
    .toString()
    .split('\n')
    .filter((line) => line !== '')
    .map((line): Entry => {
      const { p, t, s, m } = JSON.parse(line) as { p: string; t: Entry['type']; s: number; m: number }
      return { path: p, type: t, size: s, mtimeMs: m }
    })
  return entries.sort((a, b) => (a.path < b.path ? -1 : 1))
}

/** One path of one session: what is refused for where it leads is told, what fails is told in the caller's words. */
const at = async <T>(
  sessionId: string,
  path: string,
  options: WorkspaceOptions,
  work: (place: Place, inside: string) => Promise<T>,
): Promise<T> => {
  const place = placeOf(sessionId, options)
  try {
    return await work(place, filePath(path))
  } catch (error) {
    const told = errorOfFault(error, path)
    if (isCode(told, 'INVALID_PATH')) tellRefused(options.logger, { session_id: sessionId, path, reason: told.message })
    throw told
  }
}

/** As `GET D/files` reads patterns [1-42, 4-107]. */
const matcher = (pattern: string | undefined): ((path: string) => boolean) => {
  if (pattern === undefined || pattern === '') return () => true
  const normal = pattern.replaceAll('\\', '/')
  const matches = picomatch(normal, { dot: true })
  return normal.includes('/') ? matches : (path) => matches(path.slice(path.lastIndexOf('/') + 1))
}
