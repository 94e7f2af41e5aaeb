import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, mkdir, readFile, rmdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { BoxofficeError } from '@boxoffice/protocol'

const run = promisify(execFile)

/** Translates paths of the data directory to ones that a sandbox's own uid can walk to. */
export interface Reach {
  path(hostPath: string): string
  close(): Promise<void>
}

const AS_THEY_ARE: Reach = { path: (hostPath) => hostPath, close: async () => {} }

/**
 * bubblewrap opens what it mounts as the sandbox's uid, and resolves every path first, so handing it open descriptors does not
 * help: that uid must be able to walk to the directory. Ours are 0711 with unguessable names, and hold nothing readable. A
 * parent that is closed (`/root`, a directory of `mktemp`) is not ours to open; there root mounts the data directory a second
 * time below `/run/boxoffice`. That also survives a crash: the next start finds the mount and uses it.
 */
export const createReach = async (dataDirectory: string): Promise<Reach> => {
  if (process.getuid?.() !== 0) return AS_THEY_ARE
  await chmod(dataDirectory, 0o711)
  const closed = await closedParent(dataDirectory)
  if (closed === undefined) return AS_THEY_ARE

  const mountPoint = join('/run/boxoffice', createHash('sha256').update(dataDirectory).digest('hex').slice(0, 8))
  try {
    await mkdir(mountPoint, { recursive: true, mode: 0o711 })
    await chmod(dirname(mountPoint), 0o711)
    if (!(await isMounted(mountPoint, dataDirectory))) await run('mount', ['--bind', dataDirectory, mountPoint])
  } catch (error) {
    throw new BoxofficeError(
      'BACKEND_UNAVAILABLE',
      `Sandboxes run under a uid of their own, which cannot enter ${closed}; make it searchable (chmod o+x ${closed}) or choose another --data-dir`,
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

const isMounted = async (mountPoint: string, dataDirectory: string): Promise<boolean> => {
  if (!(await readFile('/proc/self/mounts', 'utf8')).includes(` ${mountPoint} `)) return false
  const [here, there] = await Promise.all([stat(mountPoint), stat(dataDirectory)])
  if (here.dev === there.dev && here.ino === there.ino) return true
  // Of an earlier directory with the same path.
  await run('umount', ['--lazy', mountPoint])
  return false
}
