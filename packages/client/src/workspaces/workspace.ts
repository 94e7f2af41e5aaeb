import { createHash } from 'node:crypto'
import { chown, lstat, lutimes, mkdir, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { fileHelpers } from './file-helpers.ts'
import { tellRefused, type WorkspaceLogger } from './logger.ts'
import { checkSessionId } from './session-id.ts'

/** What all functions take. */
export type WorkspaceOptions = {
  /** Holds one directory per session; default `workspace` below the current directory. */
  workspaceRoot?: string | undefined
  logger?: WorkspaceLogger | undefined
  /** Takes ids that are no UUIDs, too. */
  allowNonUuid?: boolean | undefined
  /** The supervisor's binary, which does the work on files; default: BOXOFFICE_SUPERVISOR_PATH, else the one that ships. */
  supervisorPath?: string | undefined
}

export type Place = { root: string; directory: string; helpers: ReturnType<typeof fileHelpers> }

/** Where a session's files are. Nothing is looked at, made or told before the id is found good. */
export const placeOf = (sessionId: string, options: WorkspaceOptions): Place => {
  const { workspaceRoot = 'workspace', allowNonUuid, logger, supervisorPath } = options
  try {
    checkSessionId(sessionId, allowNonUuid)
  } catch (error) {
    tellRefused(logger, { session_id: sessionId, reason: (error as Error).message })
    throw error
  }
  const root = resolve(workspaceRoot)
  return { root, directory: join(root, sessionId), helpers: fileHelpers(supervisorPath) }
}

/** Makes it where it is missing; what is in it stays [1-04]. Its time says when it was last used. */
export const ensureDirectory = async (directory: string): Promise<void> => {
  const made = await mkdir(dirname(directory), { recursive: true })
  if (made !== undefined) await giveAway(dirname(directory))
  try {
    await mkdir(directory)
    await giveAway(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    await touch(directory)
  }
}

export const touch = async (directory: string): Promise<void> => {
  const now = new Date()
  await lutimes(directory, now, now).catch(() => {})
}

/** Above what distributions and subordinate ranges use, and below the ids that agents allot. */
const FIRST_UID = 1_900_000_000
const UIDS = 50_000_000

/** A sandbox runs as the owner of its workspace, which root cannot be: a session of root's gets an id that is its own. */
const giveAway = async (directory: string): Promise<void> => {
  if (process.getuid?.() !== 0) return
  const uid = FIRST_UID + (createHash('sha256').update(directory).digest().readUInt32LE(0) % UIDS)
  // Where there is no such id (a user namespace), files can be worked on nevertheless.
  await chown(directory, uid, uid).catch(() => {})
}

/**
 * Which directory this is, by more than its name: one that was deleted and made anew is another, whose sandbox must not be the old
 * one's. Undefined where there is none.
 */
export const identityOf = async (directory: string): Promise<{ path: string; name: string } | undefined> => {
  const found = await lstat(directory, { bigint: true }).catch(() => undefined)
  if (!found?.isDirectory()) return undefined
  const path = join(await realpath(dirname(directory)), basename(directory))
  return { path, name: `${found.ino.toString(36)}-${found.birthtimeNs.toString(36)}` }
}
