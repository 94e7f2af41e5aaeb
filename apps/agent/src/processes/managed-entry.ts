import type { ManagedProcess } from '@boxoffice/protocol'
import { toExitFields } from '../exec/exit.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { ManagedFile } from './managed-file.ts'
import { stderrPreview } from './stderr-preview.ts'

/** The socket that has a process's lines. */
export interface LineHolder {
  /** Another one has them now. */
  takenOver(): void
}

/** One managed process as the agent has it in memory, over all of its runs. */
export type ManagedEntry = {
  file: ManagedFile
  /** `waiting`: for its next start. */
  state: 'starting' | 'running' | 'waiting' | 'exited'
  /** Monotonic, for what is kept. */
  endedAt: number
  over: PromiseWithResolvers<void>
  launched: Promise<void>
  holder: LineHolder | undefined
  position: number | undefined
  written: Promise<void>
  timer: NodeJS.Timeout | undefined
  /** While it waits, the session is not idle [0-45]. */
  release: (() => void) | undefined
}

/** One that is about to start. */
export const newEntry = (file: ManagedFile): ManagedEntry => ({
  file,
  state: 'starting',
  endedAt: 0,
  over: Promise.withResolvers(),
  launched: Promise.resolve(),
  holder: undefined,
  position: 0,
  written: Promise.resolve(),
  timer: undefined,
  release: undefined,
})

/** What is told of one [2-60]. */
export const describeEntry = async (sandbox: Sandbox, entry: ManagedEntry): Promise<ManagedProcess> => {
  const { file, state, holder } = entry
  const exit = file.exit === null || state === 'running' ? undefined : toExitFields(file.exit)
  return {
    process_id: file.process_id,
    status: state === 'running' || state === 'starting' ? 'running' : 'exited',
    command: file.command,
    args: file.args,
    cwd: file.cwd ?? sandbox.workspacePath,
    env_keys: Object.keys(file.env).sort(),
    attached: holder !== undefined,
    started_at: file.started_at,
    exited_at: file.exited_at,
    exit_code: exit?.exit_code ?? null,
    signal: exit?.signal ?? null,
    reason: exit?.reason ?? (file.exited_at === null ? null : 'sandbox_lost'),
    kill_cause: exit?.kill_cause ?? null,
    spawn_error: exit?.spawn_error ?? null,
    stderr_preview: exit?.spawn_error?.message ?? (await stderrPreview(sandbox, file.run, exit?.stderr_bytes)),
    restarts: file.restarts,
    restarting: state === 'waiting',
    restart: file.restart,
    max_restarts: file.max_restarts,
  }
}
