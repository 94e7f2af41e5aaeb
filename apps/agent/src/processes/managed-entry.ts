import type { ManagedProcess } from '@boxoffice/protocol'
import { toExitFields } from '../exec/exit.ts'
import type { LeaseHolder } from '../sandbox/managed-processes.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { ManagedRecord } from './managed-record.ts'
import { afterEvent, type RunEvent, type RunState } from './run-state.ts'
import { stderrPreview } from './stderr-preview.ts'

/** One managed process as the agent has it in memory, over all of its runs. */
export class ManagedEntry {
  record: ManagedRecord
  /** Resolved when it has ended and is not started again. */
  readonly ended = Promise.withResolvers<void>()
  /** Of its present run; rejects when the sandbox does not start it. */
  launched: Promise<void> = Promise.resolve()
  /** The socket that has its lines. */
  holder: LeaseHolder | undefined
  /** The first line of its present run that nobody got; undefined where that is not known. */
  position: number | undefined
  /** The process has what its sockets wrote. */
  written: Promise<void> = Promise.resolve()
  /** Its next start, or when its output gives way because its client has not come back. */
  timer: NodeJS.Timeout | undefined
  /** What was told last of its stderr. */
  preview = ''
  /** While it waits for its next start, the session is not idle [0-45]. */
  release: (() => void) | undefined
  #state: RunState

  constructor(record: ManagedRecord, state: RunState, position: number | undefined) {
    this.record = record
    this.#state = state
    this.position = position
  }

  get state(): RunState {
    return this.#state
  }

  /** Changes the state; throws where the event is impossible in it, which is an error of this program. */
  apply(event: RunEvent): RunState {
    const next = afterEvent(this.#state, event)
    if (next === undefined)
      throw new Error(`process ${this.record.process_id}: "${event.type}" cannot happen to one that is ${this.#state.name}`)
    this.#state = next
    return next
  }
}

/** What is told of one [2-60]. `asleep`: without a question to the supervisor. */
export const describeEntry = async (sandbox: Sandbox, entry: ManagedEntry, { asleep } = { asleep: false }): Promise<ManagedProcess> => {
  const { record, holder } = entry
  const { name } = entry.state
  const exit = record.exit === null || name === 'running' ? undefined : toExitFields(record.exit)
  if (!asleep) entry.preview = await stderrPreview(sandbox, record.run, exit?.stderr_bytes)
  return {
    process_id: record.process_id,
    status: name === 'running' || name === 'starting' ? 'running' : 'exited',
    command: record.command,
    args: record.args,
    cwd: record.cwd ?? sandbox.workspacePath,
    env_keys: Object.keys(record.env).sort(),
    attached: holder !== undefined,
    started_at: record.started_at,
    exited_at: record.exited_at,
    exit_code: exit?.exit_code ?? null,
    signal: exit?.signal ?? null,
    reason: exit?.reason ?? (record.exited_at === null ? null : 'sandbox_lost'),
    kill_cause: exit?.kill_cause ?? null,
    spawn_error: exit?.spawn_error ?? null,
    stderr_preview: exit?.spawn_error?.message ?? entry.preview,
    restarts: record.restarts,
    restarting: name === 'waiting',
    restart: record.restart,
    max_restarts: record.max_restarts,
  }
}
