import { BoxofficeError, type FileEntry, type ListFilesResponse } from '@boxoffice/protocol'
import picomatch from 'picomatch'
import { type ListEntry, listTree } from '../../files/listing.ts'
import { below } from '../../files/paths.ts'
import type { Call } from '../../http/call.ts'
import { sendJson } from '../../http/responses/respond.ts'
import { pathOf } from './file-paths.ts'

/** What one listing may look at; a tree beyond it is told as truncated. */
const MAX_SCANNED = 100_000
const MAX_PATTERN_LENGTH = 1024

/** `GET D/files` [4-107]. */
export const listFiles = async (call: Call): Promise<void> => {
  const { query, sandbox, signal, outgoing } = call
  const directory = pathOf(call, query.get('path') ?? '')
  const any = query.choice('type', ['file', 'any'], 'file') === 'any'
  const depth = query.get('depth') === undefined ? undefined : query.integer('depth', { min: 1, max: 1000, fallback: 1 })
  const limit = query.integer('limit', { min: 1, max: 10_000, fallback: 1000 })
  const after = afterCursor(query.get('cursor'))
  const matches = matcher(query.get('pattern'))
  await sandbox.ready(signal)
  const tree = await listTree(sandbox, directory, { limit: MAX_SCANNED, signal, ...(depth === undefined ? {} : { depth }) })
  const found = tree.entries.filter((entry) => (any || entry.type === 'file') && entry.path > after && matches(entry.path))
  const page = found.slice(0, limit)
  const more = found.length > limit
  sendJson(outgoing, 200, {
    files: page.map((entry) => toFileEntry({ ...entry, path: below(directory, entry.path).path })),
    truncated: more || tree.truncated,
    next_cursor: more ? Buffer.from(page.at(-1)?.path ?? '').toString('base64url') : null,
  } satisfies ListFilesResponse)
}

export const toFileEntry = ({ path, type, size, mtimeMs, mode }: ListEntry): FileEntry => ({
  path,
  type,
  size,
  mtime: new Date(mtimeMs).toISOString(),
  mode: (mode & 0o7777).toString(8).padStart(4, '0'),
})

/** The cursor is the last path that was sent. */
const afterCursor = (cursor: string | undefined): string => {
  if (cursor === undefined) return ''
  const path = Buffer.from(cursor, 'base64url').toString()
  if (path === '') throw new BoxofficeError('INVALID_REQUEST', 'cursor: not one that a listing gave')
  return path
}

/** A pattern without a slash is for names at any depth [1-42]. */
const matcher = (pattern: string | undefined): ((path: string) => boolean) => {
  if (pattern === undefined || pattern === '') return () => true
  if (pattern.length > MAX_PATTERN_LENGTH) throw new BoxofficeError('INVALID_REQUEST', `pattern: at most ${MAX_PATTERN_LENGTH} characters`)
  const matches = picomatch(pattern, { dot: true })
  return pattern.includes('/') ? matches : (path) => matches(path.slice(path.lastIndexOf('/') + 1))
}
