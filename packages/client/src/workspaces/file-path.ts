import { workspaceError } from './workspace-error.ts'

/** What Linux takes, with the NUL at its end. */
const MAX_PATH_BYTES = 4095

/** Absolute paths below these mean the workspace: the guest finds it there [1-54]. */
const GUEST_MOUNT = /^\/+(?:workspace|app)(?:\/(.*))?$/s

/**
 * A caller's path as one below the workspace, with slashes and without `.` and `..`; empty for the workspace itself. This only
 * reads the text: links are the supervisor's, which opens below the workspace and refuses what leaves it.
 */
export const filePath = (given: string): string => {
  const path = given.replaceAll('\\', '/')
  if (path.includes('\0')) throw refused(given, 'contains NUL')
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw refused(`${given.slice(0, 200)}…`, `has more than ${MAX_PATH_BYTES} bytes`)
  if (!path.isWellFormed()) throw refused(given, 'is not valid Unicode')
  const relative = path.startsWith('/') ? GUEST_MOUNT.exec(path) : [path, path]
  if (relative === null) throw refused(given, 'escapes session workspace')
  const kept: string[] = []
  for (const part of (relative[1] ?? '').split('/')) {
    if (part === '' || part === '.') continue
    if (part !== '..') kept.push(part)
    else if (kept.pop() === undefined) throw refused(given, 'escapes session workspace')
  }
  return kept.join('/')
}

const refused = (given: string, why: string) => workspaceError('INVALID_PATH', `Path '${given}' ${why}`)
