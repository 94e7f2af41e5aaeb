import { describe, expect, test } from 'vitest'
import { toExecRequest, toLostOutcome, toOutcome } from '../../../apps/broker/src/surfaces/sbs/step-result.ts'
import { BoxofficeError, type ExecResult } from '../../../packages/protocol/src/index.ts'

const exited: ExecResult = {
  exec_id: 'x',
  stdout: 'a\n',
  stderr: 'b\n',
  exit_code: 3,
  signal: null,
  reason: 'exited',
  timed_out: false,
  oom_killed: false,
  spawn_error: null,
  kill_cause: null,
  duration_ms: 1,
  stdout_bytes: 2,
  stderr_bytes: 2,
  stdout_truncated: false,
  stderr_truncated: false,
  lossy: false,
  timeout_seconds: 30,
  metadata: { session_id: 's', sandbox_id: 'b' },
}
const gone = { kind: 'bad_cwd', errno: 'ENOENT', message: 'no such directory' } as const
const noPython = { kind: 'not_found', errno: 'ENOENT', message: 'python3: not found' } as const

describe('what a step answers', () => {
  test.each<[string, Partial<ExecResult>, object]>([
    ['[3-09] its streams and its code', {}, { output: 'a\n', error: 'b\n', exit_code: 3 }],
    [
      '[3-13, 3-16] a timeout: 124, with what there was',
      { timed_out: true, reason: 'timed_out', exit_code: 124, timeout_seconds: 2 },
      { output: 'a\n', error: 'b\nthe step timed out after 2 s and was killed', exit_code: 124 },
    ],
    [
      '[3-16] an unfinished line of stderr stays a line of its own',
      { timed_out: true, reason: 'timed_out', exit_code: 124, timeout_seconds: 1, stderr: 'b' },
      { output: 'a\n', error: 'b\nthe step timed out after 1 s and was killed', exit_code: 124 },
    ],
    [
      '[3-20] a closed session: 137, however gently it died',
      { reason: 'killed', signal: 'SIGTERM', exit_code: 143, kill_cause: 'released' },
      { output: 'a\n', error: 'b\nthe step was killed: the session was closed', exit_code: 137 },
    ],
    [
      '[3-21] a signal',
      { reason: 'signaled', signal: 'SIGKILL', exit_code: 137, stderr: '' },
      { output: 'a\n', error: 'the step was killed by SIGKILL', exit_code: 137 },
    ],
    [
      '[3-21] a working directory that is gone: 126',
      { reason: 'spawn_failed', exit_code: 126, stdout: '', stderr: 'no such directory\n', spawn_error: gone },
      {
        output: '',
        error: 'the step could not start: the working directory of the session is gone or cannot be entered (no such directory)',
        exit_code: 126,
      },
    ],
    [
      '[3-10] no python: 127',
      { reason: 'spawn_failed', exit_code: 127, stdout: '', stderr: 'x\n', spawn_error: noPython },
      { output: '', error: 'the step could not start: python3: not found', exit_code: 127 },
    ],
    [
      '[3-28] a clip notice',
      { stdout_truncated: true, stdout_bytes: 3_000_000 },
      { output: 'a\n\n... [clipped: 3000000 bytes in all, the first 1048576 are shown]\n', error: 'b\n', exit_code: 3 },
    ],
  ])('%s', (_, change, answer) => {
    expect(toOutcome({ ...exited, ...change }).result).toEqual(answer)
  })

  test('[3-21] a sandbox that crashed under its step is an answer, too; another failure is none', () => {
    expect(toLostOutcome(new BoxofficeError('SANDBOX_LOST', 'gone'))?.result).toEqual({
      output: '',
      error: 'the sandbox crashed while the step ran; its session is over',
      exit_code: 137,
    })
    const ended = new BoxofficeError('SESSION_EXPIRED', 'ended', { details: { result: { ...exited, kill_cause: 'released' } } })
    expect(toLostOutcome(ended)?.result).toMatchObject({ output: 'a\n', exit_code: 137 })
    expect(toLostOutcome(new BoxofficeError('RATE_LIMITED', 'later'))).toBeNull()
  })

  test('[3-10, 3-11] bash and python3 run what they are given, as it is', () => {
    expect(toExecRequest({ type: 'bash', cmd: 'echo "$HOME"' }, '/bin/bash', 5).argv).toEqual(['/bin/bash', '-c', 'echo "$HOME"'])
    expect(toExecRequest({ type: 'python', code: 'print(1)' }, '/bin/bash', 5)).toMatchObject({
      argv: ['python3', '-c', 'print(1)'],
      timeout_seconds: 5,
    })
  })
})
