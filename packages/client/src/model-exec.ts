import { describeIssues, ModelExecInput, type ModelExecResult } from '@boxoffice/protocol'
import { BoxofficeError } from './base/errors.ts'
import { RAW_OUTPUT_BYTES, truncateForModel, withClipNotice } from './model-output.ts'
import type { Session } from './session.ts'

export type ModelExecOptions = {
  /** Where the model does not say. Default 30. */
  timeoutSec?: number | undefined
  /** What it asks for beyond that is cut to this. Default 120. */
  maxTimeoutSec?: number | undefined
  signal?: AbortSignal | undefined
}

/**
 * Runs what a model asks for in a session: the arguments of its tool call go in as they came, what is for it to read comes out
 * (contract 4.2). Rejects with INVALID_REQUEST for arguments that the tool does not have.
 */
export const execForModel = async (
  session: Pick<Session, 'id' | 'provider' | 'exec'>,
  input: unknown,
  { timeoutSec = 30, maxTimeoutSec = 120, signal }: ModelExecOptions = {},
): Promise<ModelExecResult> => {
  const parsed = ModelExecInput.safeParse(input)
  if (!parsed.success) throw new BoxofficeError('INVALID_REQUEST', describeIssues(parsed.error), { status: 400 })
  const { command, workdir, env, timeout_sec } = parsed.data
  const timeoutSeconds = Math.min(timeout_sec ?? timeoutSec, maxTimeoutSec)
  const result = await session.exec(command, {
    ...{ cwd: workdir, env, timeoutSeconds, signal },
    ...{ maxOutputBytes: RAW_OUTPUT_BYTES, outputKeep: 'head' },
  })
  const stdout = truncateForModel(withClipNotice(result.stdout, { bytes: result.stdoutBytes, truncated: result.stdoutTruncated }))
  const raw = withClipNotice(result.stderr, { bytes: result.stderrBytes, truncated: result.stderrTruncated })
  const stderr = truncateForModel(raw === '' && result.timedOut ? `Command timed out after ${timeoutSeconds} seconds.` : raw)
  return {
    session_id: session.id,
    backend: session.provider,
    status: result.timedOut ? 'timed_out' : 'completed',
    ok: !result.timedOut && result.exitCode === 0,
    exit_code: result.timedOut ? null : result.exitCode,
    stdout: stdout.text,
    stderr: stderr.text,
    stdout_truncated: stdout.truncated,
    stderr_truncated: stderr.truncated,
    duration_ms: result.durationMs,
  }
}
