import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type EndpointOptions, runningClientFor } from './endpoint.ts'
import { tell } from './logger.ts'
import { Sandbox, type SandboxOptions, threadOf } from './sandbox.ts'
import { newSessionId } from './session-id.ts'
import { ensureDirectory, identityOf, type Place, placeOf, type WorkspaceOptions } from './workspace.ts'
import { errorOfFault, FileFault } from './workspace-error.ts'

export type SessionSandboxOptions = SandboxOptions & WorkspaceOptions

/** A new session with an empty workspace, and a sandbox on it. The id is all that a caller has to keep. */
export const createSessionSandbox = async (options: SessionSandboxOptions = {}): Promise<[sessionId: string, sandbox: Sandbox]> => {
  const sessionId = newSessionId()
  return [sessionId, await openSession('session.created', sessionId, options)]
}

/** A sandbox on the workspace of a session, which is made where it is missing; the id is always the one given. */
export const getSessionSandbox = async (sessionId: string, options: SessionSandboxOptions = {}): Promise<Sandbox> =>
  await openSession('session.retrieved', sessionId, options)

/** A sandbox that belongs to no session: its results have no `session_id` [1-11]. */
export const createSandbox = async ({
  workspace = 'workspace',
  ...options
}: SandboxOptions & { workspace?: string } = {}): Promise<Sandbox> => {
  await ensureDirectory(resolve(workspace))
  const directory = await realpath(workspace)
  return new Sandbox(directory, directory, undefined, options)
}

const openSession = async (event: string, sessionId: string, options: SessionSandboxOptions): Promise<Sandbox> => {
  const { root, directory } = placeOf(sessionId, options)
  const sandbox = new Sandbox(directory, root, sessionId, options)
  await ensureDirectory(directory)
  tell(options.logger, event, { session_id: sessionId, workspace_path: directory })
  return sandbox
}

export type DeleteSessionOptions = WorkspaceOptions & EndpointOptions

/** Deletes a workspace with all that is in it, and ends its sandbox where that can be known. One that is missing is fine [1-26]. */
export const deleteSessionWorkspace = async (sessionId: string, options: DeleteSessionOptions = {}): Promise<void> => {
  const place = placeOf(sessionId, options)
  await releaseSandbox(sessionId, place, options)
  await removeWorkspace(sessionId, place)
  tell(options.logger, 'session.deleted', { session_id: sessionId })
}

export const removeWorkspace = async (sessionId: string, { root, helpers }: Place): Promise<void> => {
  try {
    await helpers.ask({ directory: await realpath(root), op: 'remove', path: sessionId, recursive: true })
  } catch (error) {
    if (isMissing(error)) return
    throw errorOfFault(error, sessionId)
  }
}

const isMissing = (error: unknown): boolean =>
  error instanceof FileFault ? error.kind === 'not_found' : (error as NodeJS.ErrnoException).code === 'ENOENT'

/** What has its directory no more is of no use to anybody, and gets another name; so nothing depends on this. */
const releaseSandbox = async (sessionId: string, { root, directory }: Place, options: DeleteSessionOptions): Promise<void> => {
  const identity = await identityOf(directory)
  if (identity === undefined) return
  try {
    const client = await runningClientFor(root, options)
    for (const { id } of (await client?.sessions.list({ scopeType: 'thread', scopeId: threadOf(sessionId, identity.name) })) ?? [])
      await client?.sessions.release(id)
  } catch {
    // Its broker is away: the sandbox ends by itself.
  }
}
