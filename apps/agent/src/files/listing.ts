import { BoxofficeError } from '@boxoffice/protocol'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { ListLine } from '../supervisor/payloads.ts'
import { openFileOperation } from './files.ts'
import type { SandboxPath } from './paths.ts'

/** One entry of a directory tree; `path` is relative to the directory that was listed. */
export type ListEntry = { path: string; type: 'file' | 'directory' | 'symlink' | 'other'; size: number; mtimeMs: number; mode: number }

const TYPES = { f: 'file', d: 'directory', l: 'symlink', o: 'other' } as const
const NEWLINE = 0x0a
const MAX_LINE_BYTES = 64 * 1024

/** Everything below a directory, at most `limit` entries, sorted by path. `truncated` when there is more. */
export const listTree = async (
  sandbox: Sandbox,
  directory: SandboxPath,
  options: { depth?: number; limit: number; signal: AbortSignal },
): Promise<{ entries: ListEntry[]; truncated: boolean }> => {
  const entries: ListEntry[] = []
  let truncated = false
  let held: Buffer = Buffer.alloc(0)

  const take = (line: Buffer): void => {
    const value: unknown = JSON.parse(line.toString())
    if (typeof value === 'object' && value !== null && 'truncated' in value) {
      truncated = true
      return
    }
    const { p, t, s, m, o } = ListLine.parse(value)
    if (entries.length < options.limit) entries.push({ path: p, type: TYPES[t], size: s, mtimeMs: m, mode: o })
    else truncated = true
  }

  const data = (piece: Buffer): void => {
    let bytes = held.length === 0 ? piece : Buffer.concat([held, piece])
    for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE)) {
      if (end > 0) take(bytes.subarray(0, end))
      bytes = bytes.subarray(end + 1)
    }
    if (bytes.length > MAX_LINE_BYTES) throw new BoxofficeError('INTERNAL', 'An internal error occurred; the log has the request_id')
    held = Buffer.from(bytes)
  }

  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const { root, path, given } = directory
  await openFileOperation(
    sandbox,
    { op: 'list', root, path, ...(options.depth === undefined ? {} : { depth: options.depth }), limit: options.limit },
    { given, signal: options.signal, sink: { result: () => {}, data, end: resolve, failed: reject } },
  )
  await promise
  if (held.length > 0) take(held)
  entries.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))
  return { entries, truncated }
}
