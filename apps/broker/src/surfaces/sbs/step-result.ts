import { type BoxofficeError, type ExecRequest, ExecResult } from '@boxoffice/protocol'
import type { Step } from './step.ts'

/** The answer to a step, exactly [3-09]. */
export type StepResult = { output: string; error: string; exit_code: number }

/** Why a step is no plain exit; null for one that is. Goes to the log, and to the caller at the end of `error`. */
export type StepOutcome = { result: StepResult; failure: string | null }

/** Of each stream; what is beyond it is read and dropped [3-28]. */
const STREAM_BYTES = 1024 * 1024
const KILLED = 137

/** `shell` runs bash steps: `/bin/bash` where there is one. */
export const toExecRequest = (step: Step, shell: string, timeoutSeconds: number): ExecRequest => ({
  argv: step.type === 'bash' ? [shell, '-c', step.cmd] : ['python3', '-c', step.code],
  timeout_seconds: timeoutSeconds,
  max_output_bytes: STREAM_BYTES,
  output_keep: 'head',
})

/** What ran, in this surface's words. */
export function toOutcome(result: ExecResult): StepOutcome {
  const failure = failureOf(result)
  const output = clipped(result.stdout, result.stdout_truncated, result.stdout_bytes)
  // Where nothing ran, stderr holds the message of the one who tried to.
  const stderr = result.spawn_error === null ? clipped(result.stderr, result.stderr_truncated, result.stderr_bytes) : ''
  const closed = result.kill_cause !== null
  const exitCode = closed ? KILLED : (result.exit_code ?? KILLED)
  return { result: { output, error: failure === null ? stderr : joined(stderr, failure), exit_code: exitCode }, failure }
}

/** What a step gets whose sandbox went away under it; `null` for errors that are no end of a step. */
export function toLostOutcome(thrown: BoxofficeError): StepOutcome | null {
  const partial = ExecResult.safeParse(thrown.details?.result)
  if (partial.success) return toOutcome({ ...partial.data, kill_cause: partial.data.kill_cause ?? 'released' })
  if (thrown.code === 'SESSION_EXPIRED' || thrown.code === 'BINDING_NOT_FOUND') return closedOutcome
  return thrown.code === 'SANDBOX_LOST' ? lost('the sandbox crashed while the step ran; its session is over') : null
}

const CLOSED = 'the step was killed: the session was closed'

const lost = (failure: string): StepOutcome => ({ result: { output: '', error: failure, exit_code: KILLED }, failure })

/** Of a step whose session was closed, and of which nothing else is known. */
export const closedOutcome: StepOutcome = lost(CLOSED)

const failureOf = (result: ExecResult): string | null => {
  const { spawn_error: spawnError, signal } = result
  if (result.timed_out) return `the step timed out after ${result.timeout_seconds} s and was killed`
  if (result.kill_cause !== null) return CLOSED
  if (spawnError !== null && spawnError.kind === 'bad_cwd')
    return `the step could not start: the working directory of the session is gone or cannot be entered (${spawnError.message})`
  if (spawnError !== null) return `the step could not start: ${spawnError.message}`
  if (result.reason === 'oom_killed') return 'the step was killed: it took more memory than there is for it'
  return signal === null ? null : `the step was killed by ${signal.startsWith('SIG') ? signal : `SIG${signal}`}`
}

const clipped = (text: string, isClipped: boolean, bytes: number): string =>
  isClipped ? `${text}\n... [clipped: ${bytes} bytes in all, the first ${STREAM_BYTES} are shown]\n` : text

const joined = (stderr: string, failure: string): string => (stderr === '' || stderr.endsWith('\n') ? stderr : `${stderr}\n`) + failure
