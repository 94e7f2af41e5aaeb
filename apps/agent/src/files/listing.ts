import type { Sandbox } from '../sandbox/sandbox.ts'
import { ListLine } from '../supervisor/payloads.ts'
import { openFileOperation } from './files.ts'
import { isHidden } from './hidden.ts'
import { JsonLines } from './json-lines.ts'
import type { SandboxPath } from './paths.ts'

/** One entry of a directory tree; `path` is relative to the directory that was listed. */
export type ListEntry = { path: string; type: 'file' | 'directory' | 'symlink' | 'other'; size: number; mtimeMs: number; mode: number }

const TYPES = { f: 'file', d: 'directory', l: 'symlink', o: 'other' } as const

/** Everything below a directory but its entry `skip`, at most `limit` entries, sorted by path. `truncated` when there is more. */
export const listTree = async (
  sandbox: Sandbox,
  directory: SandboxPath,
  options: { depth?: number; limit: number; skip?: string | undefined; signal: AbortSignal },
): Promise<{ entries: ListEntry[]; truncated: boolean }> => {
  const entries: ListEntry[] = []
  let truncated = false

  const take = (value: unknown): void => {
    if (typeof value === 'object' && value !== null && 'truncated' in value) {
      truncated = true
      return
    }
    const { p, t, s, m, o } = ListLine.parse(value)
    // A supervisor of before skips nothing.
    if (isHidden(p, options.skip)) return
    if (entries.length < options.limit) entries.push({ path: p, type: TYPES[t], size: s, mtimeMs: m, mode: o })
    else truncated = true
  }

  const lines = new JsonLines(take)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const { root, path, given } = directory
  await openFileOperation(
    sandbox,
    { op: 'list', root, path, depth: options.depth, limit: options.limit, skip: options.skip },
    { given, signal: options.signal, sink: { result: () => {}, data: (piece) => lines.push(piece), end: resolve, failed: reject } },
  )
  await promise
  lines.end()
  entries.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))
  return { entries, truncated }
}
