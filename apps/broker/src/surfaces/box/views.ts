import type { ExecResult, ManagedProcess } from '@boxoffice/protocol'
import { hasNetwork, LIMITS } from '@boxoffice/protocol'
import { isPlaced, type Session } from '../../domain/session.ts'
import { DEFAULT_MOUNT_PATH } from './spec.ts'

/** A session in the words of the Box surface (contract 4.7). */
export function toBoxSession(id: string, session: Session) {
  const { profile, mounts, createdAt, lastActivityAt } = session
  const placed = isPlaced(session) ? session : null
  return {
    session_id: id,
    backend_name: placed?.provider ?? null,
    backend_session_id: placed?.sandboxId ?? null,
    /** Null: the default image of the agent. */
    image: profile.image,
    // Clients of the Box surface know two of them.
    network: hasNetwork(profile) ? 'on' : 'off',
    host_path: mounts.workspace_host_path,
    host_path_mode: mounts.workspace_mode,
    mount_path: DEFAULT_MOUNT_PATH,
    persistent: profile.persistent,
    cpus: profile.cpus,
    memory_mb: profile.memory_mb,
    pids_limit: profile.pids_limit,
    read_only_rootfs: profile.read_only_rootfs,
    workspace_quota_mb: profile.workspace_quota_mb,
    created_at: new Date(createdAt).toISOString(),
    last_used_at: new Date(lastActivityAt).toISOString(),
  }
}

/** Processes of a session, for those that have any [2-25]. */
export function toProcessFields(processes: readonly ManagedProcess[]) {
  const first = processes.find(({ process_id }) => process_id === 'default') ?? processes[0]
  if (first === undefined) return {}
  return {
    managed_process: first,
    managed_processes: Object.fromEntries(processes.map((process) => [process.process_id, process])),
  }
}

/** A result of the Box surface. */
export type BoxExecResult = {
  session_id: string
  backend_name: string
  status: 'completed' | 'timed_out'
  exit_code: number | null
  stdout: string
  stderr: string
  duration_ms: number
}

/** What is kept of each stream [2-14]. */
export const RAW_OUTPUT_BYTES = LIMITS.defaultOutputBytes

export function toBoxExec(id: string, backend: string, result: ExecResult, timeoutSeconds: number): BoxExecResult {
  const stdout = clipped(result.stdout, result.stdout_bytes)
  const stderr = clipped(result.stderr, result.stderr_bytes)
  return {
    session_id: id,
    backend_name: backend,
    status: result.timed_out ? 'timed_out' : 'completed',
    exit_code: result.timed_out ? null : result.exit_code,
    stdout,
    stderr: result.timed_out && stderr === '' ? `Command timed out after ${timeoutSeconds} seconds.` : stderr,
    duration_ms: result.duration_ms,
  }
}

const clipped = (text: string, bytes: number): string =>
  bytes <= RAW_OUTPUT_BYTES
    ? text
    : `${text}\n... [raw output clipped at ${RAW_OUTPUT_BYTES} bytes, ${bytes - RAW_OUTPUT_BYTES} bytes discarded]`
