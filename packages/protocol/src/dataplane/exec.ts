import { z } from 'zod'
import { ExecId } from '../base/ids.ts'
import { LIMITS } from '../base/limits.ts'

/** Why a process ended [C-31]. Nothing but the supervisor ever says it; `sandbox_lost` means that nobody saw it. */
export const EXIT_REASONS = ['exited', 'signaled', 'timed_out', 'oom_killed', 'killed', 'spawn_failed', 'sandbox_lost'] as const
export const ExitReason = z.enum(EXIT_REASONS)
export type ExitReason = z.infer<typeof ExitReason>

export const KILL_CAUSES = ['disconnect', 'released', 'expired', 'revoked', 'stopped', 'shutdown', 'closed'] as const
export const KillCause = z.enum(KILL_CAUSES)
export type KillCause = z.infer<typeof KillCause>

/** Kinds of spawn failure [C-33]: `not_found` exits 127, the others 126. */
export const SPAWN_ERROR_KINDS = [
  'not_found',
  'permission_denied',
  'not_executable',
  'bad_cwd',
  'bad_args',
  'resource_limit',
  'pty_failed',
  'other',
] as const
export const SpawnError = z.object({ kind: z.enum(SPAWN_ERROR_KINDS), errno: z.string().nullable(), message: z.string() })
export type SpawnError = z.infer<typeof SpawnError>

/** Signals that a client may send, with or without `SIG` (contract 3.2). */
export const SIGNALS = ['INT', 'TERM', 'KILL', 'HUP', 'QUIT', 'USR1', 'USR2', 'STOP', 'CONT', 'WINCH'] as const
export const Signal = z.preprocess(
  (value) => (typeof value === 'string' ? value.replace(/^SIG/, '') : value),
  z.enum(SIGNALS, `must be one of ${SIGNALS.join(', ')}, with or without SIG`),
)
export type Signal = (typeof SIGNALS)[number]

const NO_NUL = /^[^\0]*$/
const text = (limit: number) => z.string().max(limit).regex(NO_NUL, 'must not contain NUL')

export const EnvironmentVariables = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'names must match [A-Za-z_][A-Za-z0-9_]*'),
  text(LIMITS.argvBytes),
)

/** What to run: exactly one of `command` (given to a shell) and `argv` (alias `cmd`, no shell) [C-63]. */
export const commandFields = {
  command: text(LIMITS.commandBytes).min(1, 'must not be empty').optional(),
  argv: z.array(text(LIMITS.argvBytes)).min(1, 'must not be empty').optional(),
  cmd: z.array(text(LIMITS.argvBytes)).min(1, 'must not be empty').optional(),
  shell: text(4096).min(1).optional(),
  cwd: text(4096).min(1).optional(),
  env: EnvironmentVariables.optional(),
  timeout_seconds: z.number().nonnegative().optional(),
  timeout: z.number().nonnegative().optional(),
  timeout_secs: z.number().nonnegative().optional(),
  exec_id: ExecId.optional(),
  detach: z.boolean().optional(),
}

/** `POST D/exec` (contract 3.2). */
export const ExecRequest = z.object({
  ...commandFields,
  stdin: z.string().optional(),
  stdin_base64: z.base64().optional(),
  max_output_bytes: z.number().int().min(0).max(LIMITS.maxOutputBytes).optional(),
  output_keep: z.enum(['head_tail', 'head', 'tail']).optional(),
  encoding: z.enum(['utf8', 'base64']).optional(),
})
export type ExecRequest = z.infer<typeof ExecRequest>

/** How a process ended; shared by HTTP results and `exit` frames. `exit_code` is an integer in both. */
export const exitFields = {
  exit_code: z.number().int().nullable(),
  signal: z.string().nullable(),
  reason: ExitReason,
  timed_out: z.boolean(),
  oom_killed: z.boolean(),
  spawn_error: SpawnError.nullable(),
  kill_cause: KillCause.nullable(),
  duration_ms: z.number(),
  stdout_bytes: z.number().int(),
  stderr_bytes: z.number().int(),
}

export const ExecResult = z.object({
  exec_id: z.string(),
  stdout: z.string(),
  stderr: z.string(),
  ...exitFields,
  stdout_truncated: z.boolean(),
  stderr_truncated: z.boolean(),
  lossy: z.boolean(),
  timeout_seconds: z.number(),
  metadata: z.object({ session_id: z.string(), sandbox_id: z.string() }),
})
export type ExecResult = z.infer<typeof ExecResult>

export const ExecSummary = z.object({
  exec_id: z.string(),
  state: z.enum(['running', 'exited']),
  kind: z.enum(['exec', 'shell']),
  command: z.string(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
  exit_code: z.number().int().nullable(),
  reason: ExitReason.nullable(),
  attached: z.number().int(),
})
export type ExecSummary = z.infer<typeof ExecSummary>
/** `POST D/exec` with `detach`: the process is there. */
export const DetachedExec = z.object({ exec_id: z.string(), state: z.enum(['running', 'exited']) })
export type DetachedExec = z.infer<typeof DetachedExec>

/** `GET D/execs/{id}/state`; `unknown` where the sandbox does not say so in time. */
export const ExecStateResponse = z.object({ exec_id: z.string(), state: z.enum(['running', 'exited', 'missing', 'unknown']) })
export type ExecStateResponse = z.infer<typeof ExecStateResponse>

/** `POST D/execs/{id}/signal`. What is left after `kill_after_seconds` gets KILL, by the supervisor, whether the client is still there or not. */
export const SignalRequest = z
  .object({ signal: Signal, kill_after_seconds: z.number().min(0).max(60).optional() })
  .refine(({ signal, kill_after_seconds }) => kill_after_seconds === undefined || signal === 'TERM', {
    path: ['kill_after_seconds'],
    message: 'goes with the signal TERM only',
  })

export const ListExecsResponse = z.object({ execs: z.array(ExecSummary) })
