import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chownSync, mkdirSync, renameSync, rmdirSync, statSync } from 'node:fs'
import { chmod, lstat, mkdir, readdir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { BoxofficeError } from '@boxoffice/protocol'
import { RECORD_NAME } from './record-file.ts'
import { writeInPlace } from './write-in-place.ts'

/** What `bind` takes, less the terminating zero. */
const MAX_SOCKET_PATH = 107
const LONGEST_BELOW = join('/sandboxes', `sb_${'0'.repeat(36)}`, 'link', 'link.sock').length

export type Owner = { uid: number; gid: number }
export type SandboxDirectories = { root: string; link: string; socketPath: string }

/**
 * Where everything is below the data directory:
 *
 *     sandboxes/<sandbox_id>/record.json       what the agent knows of it
 *     sandboxes/<sandbox_id>/link/link.sock    mounted read-only into the sandbox
 *     workspaces/<name>                        owned by the sandbox's uid
 *     prepared/<sandbox_id>/                   what becomes these directories if it is asked for
 *
 * The socket is open to everyone who reaches it, so its directory is not: root gives it to the sandbox's group alone (0710),
 * and an agent without root keeps all of `sandboxes` to its own user.
 */
export interface Layout {
  directoriesOf(sandboxId: string): SandboxDirectories
  makeDirectories(sandboxId: string, gid: number): Promise<SandboxDirectories>
  /** Directories and workspace of a sandbox that nobody has asked for yet. Throws where they could not become those of one. */
  prewarm(sandboxId: string, owner: Owner): Promise<SandboxDirectories>
  /** They become those of the sandbox. */
  usePrewarmed(sandboxId: string): SandboxDirectories
  removePrewarmed(sandboxId: string): Promise<void>
  workspaceOf(name: string): string
  makeWorkspace(name: string, owner: Owner): Promise<void>
  /** Who owns a workspace that is there; undefined when it is not. */
  ownerOf(name: string): Promise<Owner | undefined>
  /** One that is not there (any more) is fine, as for the removals: what a crash interrupted is done again. */
  renameWorkspace(name: string, as: string): Promise<void>
  removeSandbox(sandboxId: string): Promise<void>
  /** All of it but its record, for the next making of it. */
  clearSandbox(sandboxId: string): Promise<void>
  removeWorkspace(name: string): Promise<void>
  close(): Promise<void>
}

export const isRoot = (): boolean => process.getuid?.() === 0

export const createLayout = async (dataDirectory: string): Promise<Layout> => {
  const sandboxes = join(dataDirectory, 'sandboxes')
  const workspaces = join(dataDirectory, 'workspaces')
  // The name is that of earlier agents too: what they left there goes.
  const prewarmed = join(dataDirectory, 'prepared')
  await removeTree(prewarmed)
  const mode = isRoot() ? 0o711 : 0o700
  for (const directory of [sandboxes, workspaces, prewarmed]) {
    await mkdir(directory, { recursive: true })
    await chmod(directory, mode)
  }
  const movable = [sandboxes, workspaces].every((parent) => canMove(prewarmed, parent))
  const socketRoot = await shortName(dataDirectory)

  const below = (parent: string, sandboxId: string): SandboxDirectories => {
    const root = join(dataDirectory, parent, sandboxId)
    return { root, link: join(root, 'link'), socketPath: join(socketRoot, parent, sandboxId, 'link', 'link.sock') }
  }
  const directoriesOf = (sandboxId: string): SandboxDirectories => below('sandboxes', sandboxId)
  const workspaceOf = (name: string): string => join(workspaces, fileName(name))
  // Synchronous, as what follows: a trip to the thread pool costs more than the call.
  const make = ({ root, link }: SandboxDirectories, gid: number): void => {
    mkdirSync(root, { mode: 0o711, recursive: true })
    mkdirSync(link, { mode: isRoot() ? 0o710 : 0o755 })
    if (isRoot()) chownSync(link, 0, gid)
  }
  const makeOwned = (path: string, { uid, gid }: Owner): void => {
    mkdirSync(path, { mode: 0o700 })
    if (isRoot()) chownSync(path, uid, gid)
  }
  return {
    directoriesOf,
    workspaceOf,
    async makeDirectories(sandboxId, gid) {
      const directories = directoriesOf(sandboxId)
      make(directories, gid)
      return directories
    },
    async prewarm(sandboxId, owner) {
      if (!movable) throw new Error(`a directory of ${dataDirectory} is mounted: what is prewarmed cannot be moved there`)
      const directories = below('prepared', sandboxId)
      make(directories, owner.gid)
      // Each of these takes the better part of a millisecond: others have their turn between them.
      await setImmediate()
      makeOwned(join(directories.root, 'workspace'), owner)
      await setImmediate()
      writeInPlace(join(directories.root, RECORD_NAME), '')
      await setImmediate()
      return directories
    },
    usePrewarmed(sandboxId) {
      const { root } = below('prepared', sandboxId)
      const directories = directoriesOf(sandboxId)
      renameSync(join(root, 'workspace'), workspaceOf(sandboxId))
      renameSync(root, directories.root)
      return directories
    },
    makeWorkspace: async (name, owner) => makeOwned(workspaceOf(name), owner),
    async ownerOf(name) {
      const existing = statSync(workspaceOf(name), { throwIfNoEntry: false })
      return existing && { uid: existing.uid, gid: existing.gid }
    },
    async renameWorkspace(name, as) {
      await rename(workspaceOf(name), workspaceOf(as)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
      })
    },
    removeSandbox: (sandboxId) => removeTree(directoriesOf(sandboxId).root),
    async clearSandbox(sandboxId) {
      const { root } = directoriesOf(sandboxId)
      const names = (await readdir(root)).filter((name) => name !== RECORD_NAME)
      await Promise.all(names.map((name) => rm(join(root, name), { recursive: true, force: true })))
    },
    removePrewarmed: (sandboxId) => removeTree(below('prepared', sandboxId).root),
    async close() {
      await removeTree(prewarmed)
      if (socketRoot !== dataDirectory) await rm(socketRoot, { force: true })
    },
    removeWorkspace: (name) => removeTree(workspaceOf(name)),
  }
}

/**
 * Node removes by whole paths, which Linux takes up to 4096 bytes of, and what runs in a sandbox can go deeper step by step: there the
 * program does it that goes step by step, too.
 */
const removeTree = async (path: string): Promise<void> => {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENAMETOOLONG') throw error
    await promisify(execFile)('rm', ['-rf', '--', path])
  }
}

/** Not between two mounts, even of one file system. */
const canMove = (from: string, to: string): boolean => {
  const [here, there] = [join(from, 'probe'), join(to, 'probe')]
  mkdirSync(here)
  try {
    renameSync(here, there)
    rmdirSync(there)
    return true
  } catch {
    rmdirSync(here)
    return false
  }
}

/** Names come from the broker; one that could mean another path becomes its hash. */
const fileName = (name: string): string =>
  /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(name) ? name : createHash('sha256').update(name).digest('hex')

/**
 * The data directory by a name that leaves room for a socket's path. A long one gets a symbolic link whose name follows from
 * it, so that the supervisors of an earlier run find their socket again.
 */
const shortName = async (dataDirectory: string): Promise<string> => {
  if (dataDirectory.length + LONGEST_BELOW <= MAX_SOCKET_PATH) return dataDirectory
  const digest = createHash('sha256').update(dataDirectory).digest('hex').slice(0, 12)
  const link = join(process.env.XDG_RUNTIME_DIR ?? '/tmp', `bxo-${digest}`)
  await symlink(dataDirectory, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const { uid } = await lstat(link)
  if (link.length + LONGEST_BELOW > MAX_SOCKET_PATH || uid !== process.getuid?.() || (await readlink(link)) !== dataDirectory) {
    const room = MAX_SOCKET_PATH - LONGEST_BELOW
    throw new BoxofficeError(
      'INVALID_REQUEST',
      `--data-dir is too long for unix sockets: at most ${room} characters, not ${dataDirectory.length}: ${dataDirectory}`,
    )
  }
  return link
}
