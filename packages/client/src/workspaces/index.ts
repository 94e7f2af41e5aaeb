import { stopLocalBoxoffices } from './endpoint.ts'
import { stopFileHelpers } from './file-helpers.ts'

export type { WorkspaceLogger } from './logger.ts'
export { type PruneResult, type PruneSessionsOptions, pruneSessions as prune_sessions, pruneSessions } from './prune-sessions.ts'
export type { ExecutionPolicy, Runtime, Sandbox, SandboxOptions, SandboxResult } from './sandbox.ts'
export {
  type DeleteSessionPathOptions,
  deleteSessionPath,
  deleteSessionPath as delete_session_path,
  type ListSessionFilesOptions,
  listSessionFiles,
  listSessionFiles as list_session_files,
  readSessionFile,
  readSessionFile as read_session_file,
  type WriteSessionFileOptions,
  writeSessionFile,
  writeSessionFile as write_session_file,
} from './session-files.ts'
export {
  createSandbox,
  createSandbox as create_sandbox,
  createSessionSandbox,
  createSessionSandbox as create_session_sandbox,
  type DeleteSessionOptions,
  deleteSessionWorkspace,
  deleteSessionWorkspace as delete_session_workspace,
  getSessionSandbox,
  getSessionSandbox as get_session_sandbox,
  type SessionSandboxOptions,
} from './sessions.ts'
export type { WorkspaceOptions } from './workspace.ts'

/** Ends what this process has started for its workspaces: file helpers, and a `boxoffice up`. They end with it in any case. */
export const closeWorkspaces = async (): Promise<void> => {
  await Promise.all([stopFileHelpers(), stopLocalBoxoffices()])
}
