import { setImmediate } from 'node:timers/promises'
import { BoxofficeError, type FileEntry, type ListFilesResponse } from '@boxoffice/protocol'
import { Glob } from '../../files/glob.ts'
import { hiddenIn } from '../../files/hidden.ts'
import { type ListEntry, listTree } from '../../files/listing.ts'
import { below } from '../../files/paths.ts'
import type { Call } from '../../http/call.ts'
import { sendJson } from '../../http/responses/respond.ts'
import { pathOf } from './file-paths.ts'

/** What one listing may look at; a tree beyond it is told as truncated. */
const MAX_SCANNED = 100_000
/** Steps of a glob, some milliseconds, after which other requests have their turn. */
const STEPS_OF_TURN = 100_000

/** `GET D/files` [4-107]. */
export const listFiles = async (call: Call): Promise<void> => {
  const { query, sandbox, signal, outgoing } = call
  const directory = pathOf(call, query.get('path') ?? '')
  const any = query.choice('type', ['file', 'any'], 'file') === 'any'
  const depth = query.get('depth') === undefined ? undefined : query.integer('depth', { min: 1, max: 1000, fallback: 1 })
  const limit = query.integer('limit', { min: 1, max: 10_000, fallback: 1000 })
  const after = afterCursor(query.get('cursor'))
  const pattern = query.get('pattern') ?? ''
  const glob = pattern === '' ? undefined : new Glob(pattern)
  await sandbox.ready(signal)
  const tree = await listTree(sandbox, directory, {
    limit: MAX_SCANNED,
    skip: hiddenIn(directory),
    signal,
    ...(depth === undefined ? {} : { depth }),
  })
  const entries = tree.entries.filter((entry) => (any || entry.type === 'file') && entry.path > after)
  const found = glob === undefined ? entries : await matching(entries, glob, signal)
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

async function matching(entries: readonly ListEntry[], glob: Glob, signal: AbortSignal): Promise<ListEntry[]> {
  const found: ListEntry[] = []
  let turnEnds = STEPS_OF_TURN
  for (const entry of entries) {
    if (glob.matches(entry.path)) found.push(entry)
    if (glob.steps < turnEnds) continue
    await setImmediate()
    signal.throwIfAborted()
    turnEnds = glob.steps + STEPS_OF_TURN
  }
  return found
}
