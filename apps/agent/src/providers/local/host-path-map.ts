import { execFile } from 'node:child_process'
import { chmod, mkdir, readFile, rmdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { BoxofficeError } from '@boxoffice/protocol'

const run = promisify(execFile)

/** Translates paths of the data directory to ones that a sandbox's own uid can walk to. */
export interface HostPathMap {
  path(hostPath: string): string
  close(): Promise<void>
}

export const SAME_PATHS: HostPathMap = { path: (hostPath) => hostPath, close: async () => {} }

/**
 * bubblewrap opens what it mounts as the sandbox's uid, and resolves every path first, so handing it open descriptors does not
 * help: that uid must be able to walk to the directory. Ours are 0711 with unguessable names, and hold nothing readable. A
 * parent that is closed (`/root`, a directory of `mktemp`) is not ours to open; there root mounts the data directory a second
 * time below `/run/boxoffice`. That also survives a crash: the next start finds the mount and uses it.
 */
export const createHostPathMap = async (dataDirectory: string, installId: string): Promise<HostPathMap> => {
  if (process.getuid?.() !== 0) return SAME_PATHS
  await chmod(dataDirectory, 0o711)
  // By the install, so that each start finds what an agent of this one that was killed has left, and nothing of another's.
  const mountPoint = join('/run/boxoffice', installId)
  await dropStale(mountPoint, dataDirectory)
  const closed = await closedParent(dataDirectory)
  if (closed === undefined && !(await isMounted(mountPoint))) return SAME_PATHS

  try {
    await mkdir(mountPoint, { recursive: true, mode: 0o711 })
    await chmod(dirname(mountPoint), 0o711)
    if (!(await isMounted(mountPoint))) await run('mount', ['--bind', dataDirectory, mountPoint])
  } catch (error) {
    throw new BoxofficeError(
      'BACKEND_UNAVAILABLE',
      `Sandboxes run under a uid of their own, which cannot enter ${closed ?? dataDirectory}; make it searchable (chmod o+x ${closed ?? dataDirectory}) or choose another --data-dir`,
      { cause: error },
    )
  }
  return {
    path: (hostPath) => (hostPath.startsWith(`${dataDirectory}/`) ? mountPoint + hostPath.slice(dataDirectory.length) : hostPath),
    async close() {
      // Running sandboxes hold mounts of their own; only the way in for new ones goes.
      await run('umount', ['--lazy', mountPoint]).catch(() => {})
      await rmdir(mountPoint).catch(() => {})
    },
  }
}

const closedParent = async (directory: string): Promise<string | undefined> => {
  for (let path = dirname(directory); ; path = dirname(path)) {
    if (((await stat(path)).mode & 0o001) === 0) return path
    if (path === dirname(path)) return undefined
  }
}

const isMounted = async (mountPoint: string): Promise<boolean> => (await readFile('/proc/self/mounts', 'utf8')).includes(` ${mountPoint} `)

/** What an earlier data directory of this install was mounted for: it has moved, or was put back from a copy. */
const dropStale = async (mountPoint: string, dataDirectory: string): Promise<void> => {
  while (await isMounted(mountPoint)) {
    const [here, there] = await Promise.all([stat(mountPoint), stat(dataDirectory)])
    if (here.dev === there.dev && here.ino === there.ino) return
    await run('umount', ['--lazy', mountPoint])
  }
  await rmdir(mountPoint).catch(() => {})
}
