import { lstat, readdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Client } from '../client.ts'
import { type EndpointOptions, runningClientFor } from './endpoint.ts'
import { tell } from './logger.ts'
import { threadOf } from './sandbox.ts'
import { entriesOf } from './session-files.ts'
import { isSessionId } from './session-id.ts'
import { removeWorkspace } from './sessions.ts'
import { identityOf, type Place, placeOf, type WorkspaceOptions } from './workspace.ts'

export type PruneSessionsOptions = Omit<WorkspaceOptions, 'allowNonUuid'> &
  EndpointOptions & {
    /** Since anything in a workspace was last written, or its session used. */
    olderThanHours?: number | undefined
    /** Only tells what would be deleted. */
    dryRun?: boolean | undefined
  }

export type PruneResult = {
  deleted_sessions: string[]
  /** Old enough, but in use. */
  skipped_sessions: string[]
  reclaimed_bytes: number
  /** By session, why it could not be deleted. */
  errors: Record<string, string>
  dry_run: boolean
}

const HOUR_MS = 3_600_000

/** Deletes the workspaces that nobody has used for a while. Directories whose names are no session ids are left alone. */
export const pruneSessions = async (options: PruneSessionsOptions = {}): Promise<PruneResult> => {
  const { workspaceRoot = 'workspace', olderThanHours = 24, dryRun = false, logger } = options
  const root = resolve(workspaceRoot)
  const result: PruneResult = { deleted_sessions: [], skipped_sessions: [], reclaimed_bytes: 0, errors: {}, dry_run: dryRun }
  const client = await runningClientFor(root, options)
  const before = Date.now() - olderThanHours * HOUR_MS
  for (const sessionId of await sessionsIn(root)) {
    const place = placeOf(sessionId, options)
    try {
      if ((await lastUse(place)) > before) continue
      const bytes = await bytesOf(place)
      if (await isInUse(sessionId, place, client)) {
        result.skipped_sessions.push(sessionId)
        continue
      }
      if (!dryRun) {
        await removeWorkspace(sessionId, place)
        tell(logger, 'session.deleted', { session_id: sessionId })
      }
      result.deleted_sessions.push(sessionId)
      result.reclaimed_bytes += bytes
    } catch (error) {
      result.errors[sessionId] = (error as Error).message
    }
  }
  return result
}

const sessionsIn = async (root: string): Promise<string[]> => {
  const entries = await readdir(root, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  return entries
    .filter((entry) => entry.isDirectory() && isSessionId(entry.name))
    .map(({ name }) => name)
    .sort()
}

const lastUse = async (place: Place): Promise<number> => {
  const own = await lstat(place.directory)
  return (await entriesOf(place)).reduce((latest, { mtimeMs }) => Math.max(latest, mtimeMs), own.mtimeMs)
}

const bytesOf = async ({ directory, helpers }: Place): Promise<number> => {
  const { result } = await helpers.ask({ directory, op: 'usage' })
  return Number(result.bytes)
}

/** Whether a Boxoffice that we know of has a live session on it. */
const isInUse = async (sessionId: string, { directory }: Place, client: Client | undefined): Promise<boolean> => {
  const identity = await identityOf(directory)
  if (client === undefined || identity === undefined) return false
  const live = await client.sessions.list({ scopeType: 'thread', scopeId: threadOf(sessionId, identity.name) })
  return live.length > 0
}
