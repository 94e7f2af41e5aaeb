import type { ExitFrame, ExitReason, KillCause, SpawnError, ExecResult as WireResult } from '@boxoffice/protocol'

/** How a process ended. `exitCode` is 128+n after signal n, 124 after a timeout, 126 or 127 when it could not start. */
export type Exit = {
  exitCode: number
  /** `SIGTERM` and so on, or null. */
  signal: string | null
  reason: ExitReason
  timedOut: boolean
  oomKilled: boolean
  spawnError: SpawnError | null
  /** Who ended it, when the product did. */
  killCause: KillCause | null
  durationMs: number
  /** Bytes that the process wrote, whether or not they were kept. */
  stdoutBytes: number
  stderrBytes: number
}

/** What `session.exec` gives. A non-zero exit code is a result, not an error. */
export type ExecResult = Exit & {
  execId: string
  stdout: string
  stderr: string
  stdoutTruncated: boolean
  stderrTruncated: boolean
  /** True when the output was not valid UTF-8 and U+FFFD stands for what was not. */
  lossy: boolean
  timeoutSeconds: number
}

export const toExit = (wire: ExitFrame | WireResult): Exit => ({
  // An integer in every exit frame and every 200 of an exec [C-31]; null only in records of lost sandboxes.
  exitCode: wire.exit_code ?? 255,
  signal: wire.signal,
  reason: wire.reason,
  timedOut: wire.timed_out,
  oomKilled: wire.oom_killed,
  spawnError: wire.spawn_error,
  killCause: wire.kill_cause ?? null,
  durationMs: wire.duration_ms,
  stdoutBytes: wire.stdout_bytes,
  stderrBytes: wire.stderr_bytes,
})

export const toExecResult = (wire: WireResult): ExecResult => ({
  execId: wire.exec_id,
  stdout: wire.stdout,
  stderr: wire.stderr,
  ...toExit(wire),
  stdoutTruncated: wire.stdout_truncated,
  stderrTruncated: wire.stderr_truncated,
  lossy: wire.lossy,
  timeoutSeconds: wire.timeout_seconds,
})
