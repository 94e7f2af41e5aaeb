import { BoxofficeError, type FileRoot } from '@boxoffice/protocol'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { fileNameBytes } from './file-name.ts'

/** A path as the supervisor takes it. `shown` is what answers call it; `given` is the client's own text, for messages. */
export type SandboxPath = { root: FileRoot; path: string; shown: string; given: string }

/** What Linux takes, with the NUL at its end. */
const MAX_PATH_BYTES = 4095
/** Deeper ones are reached by a working directory only, which calls do not have. */
const MAX_PARTS = 256
const SHOWN = 200

const refused = (given: string, why: string): BoxofficeError =>
  new BoxofficeError('INVALID_PATH', `path ${JSON.stringify(given.length > SHOWN ? `${given.slice(0, SHOWN)}…` : given)} ${why}`)

/** Absolute paths below these mean the workspace; what follows the mount is group 1 [4-106]. */
const GUEST_MOUNT = /^\/+(?:workspace|app)(?:\/(.*))?$/s

/**
 * A client's path below the workspace, or anywhere in the sandbox for `root=sandbox` (contract 3.8). This only reads the text;
 * links are the supervisor's, which opens below the root and refuses what leaves it.
 */
export const sandboxPath = (given: string, root: FileRoot, { isolation }: Sandbox): SandboxPath => {
  if (given.includes('\0')) throw refused(given, 'contains NUL')
  if (isTooLong(given)) throw refused(given, `has more than ${MAX_PATH_BYTES} bytes`)
  if (!given.isWellFormed()) throw refused(given, 'is not valid Unicode')
  if (root === 'sandbox' && isolation === 'none') {
    throw new BoxofficeError('UNSUPPORTED', 'root=sandbox: this sandbox has no file system of its own (isolation none); leave root away')
  }
  if (root === 'sandbox' && given.startsWith('/')) {
    const path = `/${shallow(segments(given), given).join('/')}`
    return { root, path, shown: path, given }
  }
  const relative = given.startsWith('/') ? GUEST_MOUNT.exec(given) : [given, given]
  if (relative === null) throw refused(given, 'is absolute; give one below /workspace, or a relative one')
  const path = shallow(withoutParents(segments(relative[1] ?? ''), given), given).join('/')
  return { root: 'workspace', path, shown: path === '' ? '.' : path, given }
}

/** As the kernel counts. */
const isTooLong = (path: string): boolean => Buffer.byteLength(path) > MAX_PATH_BYTES && fileNameBytes(path).length > MAX_PATH_BYTES

const segments = (path: string): string[] => path.split('/').filter((segment) => segment !== '' && segment !== '.')

const shallow = (parts: string[], given: string): string[] => {
  if (parts.length > MAX_PARTS) throw refused(given, `has more than ${MAX_PARTS} parts`)
  return parts
}

const withoutParents = (parts: readonly string[], given: string): string[] => {
  const kept: string[] = []
  for (const part of parts) {
    if (part !== '..') kept.push(part)
    else if (kept.pop() === undefined) throw refused(given, 'leads outside of the workspace')
  }
  return kept
}

/** The path of something below a directory; `name` is one or several clean segments. */
export const below = (directory: SandboxPath, name: string): SandboxPath => {
  const path = directory.path === '' ? name : directory.path === '/' ? `/${name}` : `${directory.path}/${name}`
  return { root: directory.root, path, shown: path, given: name }
}

/** The same for a name of the client's, in which each segment counts. */
export const entryBelow = (directory: SandboxPath, name: string): SandboxPath => {
  const path = below(directory, name)
  if (isTooLong(path.path)) throw refused(name, `has more than ${MAX_PATH_BYTES} bytes`)
  shallow(segments(path.path), name)
  return path
}

/** Refuses what would replace or remove the root itself [1-52]. */
export const notRoot = (path: SandboxPath): SandboxPath => {
  if (path.path === '' || path.path === '/') throw refused(path.given, 'is the root')
  return path
}
