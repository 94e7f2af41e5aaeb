import { BoxofficeError, ERRORS, type ErrorCode, type ExecResult } from '@boxoffice/protocol'
import { describe, expect, test } from 'vitest'
import { toBoxRefusal } from '../../../src/surfaces/box/errors.ts'
import { RAW_OUTPUT_BYTES, toBoxExec } from '../../../src/surfaces/box/views.ts'

describe('[2-42] what a failure is called', () => {
  test.each<[ErrorCode, number, string]>([
    ['INVALID_REQUEST', 400, 'validation_error'],
    ['PAYLOAD_TOO_LARGE', 400, 'validation_error'],
    ['UNAUTHENTICATED', 401, 'unauthorized'],
    ['FORBIDDEN', 403, 'forbidden'],
    ['BINDING_NOT_FOUND', 404, 'session_not_found'],
    ['PROCESS_NOT_FOUND', 404, 'managed_process_not_found'],
    ['BINDING_CONFLICT', 409, 'session_conflict'],
    ['PROCESS_CONFLICT', 409, 'managed_process_conflict'],
    ['BACKEND_UNAVAILABLE', 503, 'backend_unavailable'],
    ['AGENT_FULL', 503, 'capacity'],
    ['QUOTA_EXCEEDED', 503, 'capacity'],
    ['INTERNAL', 500, 'internal_error'],
  ])('%s: %d %s', (code, status, name) => {
    expect(toBoxRefusal(new BoxofficeError(code, 'why'))).toEqual({ status, code: name, message: 'why' })
  })

  test('[0-50] a quota that is full is capacity, a rate that was exceeded is not', () => {
    const refused = (limit: string) => toBoxRefusal(new BoxofficeError('RATE_LIMITED', 'why', { details: { limit } }))
    expect(refused('max_sessions')).toMatchObject({ status: 503, code: 'capacity' })
    expect(refused('create')).toMatchObject({ status: 429, code: 'rate_limited' })
  })

  test('every code of the product has a name here', () => {
    for (const code of Object.keys(ERRORS) as ErrorCode[])
      expect(toBoxRefusal(new BoxofficeError(code, 'why'))).toMatchObject({ code: expect.stringMatching(/^[a-z_]+$/) })
  })
})

describe('a result', () => {
  const result: ExecResult = {
    exec_id: 'e',
    stdout: 'out',
    stderr: '',
    exit_code: 0,
    signal: null,
    reason: 'exited',
    timed_out: false,
    oom_killed: false,
    spawn_error: null,
    kill_cause: null,
    duration_ms: 5,
    stdout_bytes: 3,
    stderr_bytes: 0,
    stdout_truncated: false,
    stderr_truncated: false,
    lossy: false,
    timeout_seconds: 30,
    metadata: { session_id: 'ssn', sandbox_id: 'sb' },
  }

  test('[2-132, 2-14] truncation: each stream that was cut says by how much', () => {
    expect(toBoxExec('s', 'docker', result, 30)).toMatchObject({ stdout: 'out', status: 'completed', exit_code: 0 })
    const cut = toBoxExec('s', 'docker', { ...result, stderr: 'e', stderr_bytes: RAW_OUTPUT_BYTES + 7 }, 30)
    expect(cut).toMatchObject({ stdout: 'out', stderr: 'e\n... [raw output clipped at 1048576 bytes, 7 bytes discarded]' })
  })

  test('[2-24] what ran out of time has no exit code, and says so where it said nothing itself', () => {
    const late = { ...result, timed_out: true, reason: 'timed_out' as const, exit_code: 137 }
    expect(toBoxExec('s', 'docker', late, 30)).toMatchObject({
      status: 'timed_out',
      exit_code: null,
      stderr: 'Command timed out after 30 seconds.',
    })
    expect(toBoxExec('s', 'docker', { ...late, stderr: 'own words' }, 30).stderr).toBe('own words')
  })
})
