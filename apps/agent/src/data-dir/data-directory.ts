import { createHash, randomBytes } from 'node:crypto'
import { chmod, copyFile, mkdir, open, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SHIPPED_SUPERVISORS } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import { claimUidBlock } from './uid-block.ts'

/** The agent's data directory, held by this process alone. `uidBlock`: whose user ids its sandboxes have (`createUids`). */
export type DataDirectory = { path: string; installId: string; uidBlock: number; supervisorPath: string; release: () => Promise<void> }

export const openDataDirectory = async (configured: string, supervisor: string | undefined): Promise<DataDirectory> => {
  await mkdir(configured, { recursive: true, mode: 0o700 })
  const path = await realpath(configured)
  const release = await lock(path)
  try {
    const installId = await installIdOf(path)
    const uidBlock = await claimUidBlock(path, installId)
    return { path, installId, uidBlock, supervisorPath: await installSupervisor(path, supervisor), release }
  } catch (error) {
    await release()
    throw error
  }
}

const LOCK = 'agent.lock'

/** One agent per data directory. A lock that a dead process left is taken over; process ids that were used again are told apart by start time. */
const lock = async (directory: string): Promise<() => Promise<void>> => {
  const path = join(directory, LOCK)
  const mine = JSON.stringify({ pid: process.pid, startTime: await startTimeOf(process.pid) })
  for (;;) {
    try {
      await using file = await open(path, 'wx', 0o600)
      await file.writeFile(mine)
      return () => rm(path, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = await readHolder(path)
    if (holder !== undefined && (await startTimeOf(holder.pid)) === holder.startTime) {
      throw new BoxofficeError(
        'BINDING_CONFLICT',
        `another agent (pid ${holder.pid}) uses the data directory ${directory}; stop it or choose another --data-dir`,
      )
    }
    await rm(path, { force: true })
  }
}

const readHolder = async (path: string): Promise<{ pid: number; startTime: string } | undefined> => {
  try {
    const { pid, startTime } = JSON.parse(await readFile(path, 'utf8')) as { pid?: unknown; startTime?: unknown }
    return typeof pid === 'number' && typeof startTime === 'string' ? { pid, startTime } : undefined
  } catch {
    return undefined
  }
}

const startTimeOf = async (pid: number): Promise<string | undefined> => {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  return text?.slice(text.lastIndexOf(')') + 2).split(' ')[19]
}

/** Names this installation for as long as its data directory lives; labels of what it starts carry it. */
const installIdOf = async (directory: string): Promise<string> => {
  const path = join(directory, 'install-id')
  const known = (await readFile(path, 'utf8').catch(() => '')).trim()
  if (/^[0-9a-f]{16}$/.test(known)) return known
  const id = randomBytes(8).toString('hex')
  await writeFile(`${path}.new`, id, { mode: 0o600 })
  await rename(`${path}.new`, path)
  return id
}

/**
 * Copies the supervisor below the data directory, under a name of its content: sandboxes mount that file for as long as they
 * live, whatever happens to the installation.
 */
const installSupervisor = async (directory: string, configured: string | undefined): Promise<string> => {
  const candidates = configured === undefined ? SHIPPED_SUPERVISORS : [configured]
  for (const candidate of candidates) {
    const content = await readFile(candidate).catch(() => undefined)
    if (content === undefined) continue
    const path = join(directory, 'bin', `supervisor-${createHash('sha256').update(content).digest('hex').slice(0, 12)}`)
    if (
      await stat(path).then(
        () => true,
        () => false,
      )
    )
      return path
    await mkdir(join(directory, 'bin'), { recursive: true, mode: 0o711 })
    await copyFile(candidate, `${path}.new`)
    await chmod(`${path}.new`, 0o755)
    await rename(`${path}.new`, path)
    return path
  }
  throw new BoxofficeError(
    'BACKEND_UNAVAILABLE',
    `the supervisor's binary is not at ${candidates.join(' or ')}; run the set-up, or name it by --supervisor-path`,
  )
}
