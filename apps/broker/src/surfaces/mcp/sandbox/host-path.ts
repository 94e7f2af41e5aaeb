import { posix } from 'node:path'

const VENV_DIRECTORIES: ReadonlySet<string> = new Set(['.venv', 'venv', 'env', '.env'])
const VENV_BINARIES: ReadonlySet<string> = new Set(['bin', 'Scripts'])
const PYTHON = /^python(?:\d+(?:\.\d+)*)?(?:\.exe)?$/i

/** Where a project's files are in a sandbox unless something else is said. */
export const DEFAULT_MOUNT_PATH = '/workspace'

export type Invocation = { command: string; args: readonly string[] }

/**
 * The directory of the host that a server's files are in, as far as its absolute command and arguments tell; a virtual environment
 * stands for the project that it belongs to. Null when there is none, or when all that they have in common is `/` [2-84].
 */
export function inferHostPath({ command, args }: Invocation): string | null {
  const directories = [command, ...args].filter((part) => part.startsWith('/')).map(directoryOf)
  const [first, ...others] = directories
  if (first === undefined) return null
  const common = others.reduce(commonPath, first)
  return common === '/' ? null : common
}

/** What a path stands for: the project of a virtual environment, else the directory of a file; what has no extension is a directory. */
function directoryOf(path: string): string {
  const normal = withoutSlash(posix.normalize(path))
  const venv = venvRoot(normal)
  if (venv !== undefined) return posix.dirname(venv)
  return isProgram(normal) ? posix.dirname(normal) : normal
}

/** A file by its extension, or by where programs lie. */
const isProgram = (path: string): boolean => posix.extname(path) !== '' || /^s?bin$/.test(posix.basename(posix.dirname(path)))

/** `/p/.venv` of `/p/.venv/bin/python`. */
function venvRoot(path: string): string | undefined {
  const parts = path.split('/')
  const at = parts.findIndex((part, index) => VENV_DIRECTORIES.has(part) && VENV_BINARIES.has(parts[index + 1] ?? '') && index > 1)
  return at === -1 ? undefined : parts.slice(0, at + 1).join('/')
}

function commonPath(one: string, other: string): string {
  const [a, b] = [one.split('/'), other.split('/')]
  const different = a.findIndex((part, index) => part !== b[index])
  const shared = a.slice(0, different === -1 ? a.length : different).join('/')
  return shared === '' ? '/' : shared
}

/** The same path as the sandbox sees it; whatever is not below `hostPath` stays as it is [2-85]. */
export function rewritePath(path: string, hostPath: string | null, mountPath: string = DEFAULT_MOUNT_PATH): string {
  if (hostPath === null) return path
  const root = withoutSlash(posix.normalize(hostPath))
  if (!path.startsWith(root)) return path
  const rest = path.slice(root.length)
  return rest === '' || rest.startsWith('/') ? withoutSlash(mountPath + rest) : path
}

/** A virtual environment is made for the machine it is on: in the sandbox its python is the sandbox's own [2-86]. */
export function unwrapVenv(command: string): string {
  const [directory = '', binaries = '', name = ''] = command.split('/').slice(-3)
  return VENV_DIRECTORIES.has(directory) && VENV_BINARIES.has(binaries) && PYTHON.test(name) ? 'python' : command
}

/** A command line as it is in the sandbox. */
export const rewriteInvocation = (
  { command, args }: Invocation,
  hostPath: string | null,
  mountPath: string = DEFAULT_MOUNT_PATH,
): { command: string; args: string[] } => ({
  command: rewritePath(unwrapVenv(command), hostPath, mountPath),
  args: args.map((arg) => rewritePath(arg, hostPath, mountPath)),
})

const withoutSlash = (path: string): string => (path.length > 1 ? path.replace(/\/+$/, '') || '/' : path)
