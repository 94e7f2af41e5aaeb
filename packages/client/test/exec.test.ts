import { describe, expect } from 'vitest'
import { ExecError } from '../src/index.ts'
import { envelope, type Recorded } from './fixture/fake-server.ts'
import { test } from './fixture/server-test.ts'

const EXEC = '/sandboxes/sb_1/v1/exec'

const result = (fields: Record<string, unknown> = {}) => ({
  exec_id: 'x',
  stdout: 'out\n',
  stderr: '',
  exit_code: 0,
  signal: null,
  reason: 'exited',
  timed_out: false,
  oom_killed: false,
  spawn_error: null,
  kill_cause: null,
  duration_ms: 1,
  stdout_bytes: 4,
  stderr_bytes: 0,
  stdout_truncated: false,
  stderr_truncated: false,
  lossy: false,
  timeout_seconds: 60,
  metadata: { session_id: 's', sandbox_id: 'sb_1' },
  ...fields,
})
const bodyOf = ({ body }: Recorded) => JSON.parse(body.toString()) as Record<string, unknown>

describe('a buffered exec', () => {
  test('[4-100, 4-101] gives a result, whatever the exit code', async ({ server, session }) => {
    server.intercept = ({ path }) => (path === EXEC ? { json: result({ exit_code: 3, stderr: 'bad\n' }) } : undefined)
    const given = await session.exec('false', {
      cwd: 'a',
      env: { B: 'c' },
      stdin: new Uint8Array([0, 255]),
      timeoutSeconds: 9,
      maxOutputBytes: 10,
    })
    expect(given).toMatchObject({ stdout: 'out\n', stderr: 'bad\n', exitCode: 3, timedOut: false, stdoutBytes: 4 })
    expect(bodyOf(server.requests.at(-1) as Recorded)).toMatchObject({
      command: 'false',
      cwd: 'a',
      env: { B: 'c' },
      stdin_base64: 'AP8=',
      timeout_seconds: 9,
      max_output_bytes: 10,
      exec_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    })
  })

  test('that throws shares its fields with the result', async ({ server, session }) => {
    server.intercept = ({ path }) => (path === EXEC ? { json: result({ exit_code: 2, stderr: 'a\nno such thing\n' }) } : undefined)
    const error: unknown = await session.exec.orThrow(['cat', 'x']).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(ExecError)
    expect(error).toMatchObject({ exitCode: 2, stdout: 'out\n', reason: 'exited', message: '`cat x` exited with 2: no such thing' })
  })

  test('is sent again under its id when the connection drops, so that it runs once', async ({ server, session }) => {
    let dropped = 0
    server.intercept = ({ path }) => {
      if (path !== EXEC) return undefined
      return dropped++ < 2 ? 'drop' : { json: result() }
    }
    expect(await session.exec('make')).toMatchObject({ exitCode: 0 })
    const ids = server.requests.filter(({ path }) => path === EXEC).map((request) => bodyOf(request).exec_id)
    expect(ids).toHaveLength(3)
    expect(new Set(ids).size).toBe(1)
  })

  test('renews a token that has run out, once', async ({ server, session }) => {
    const expired = { status: 401, json: envelope('TOKEN_EXPIRED', 'expired', { aliases: ['UNAUTHENTICATED'] }) }
    const tokens: (string | undefined)[] = []
    server.intercept = ({ path, headers }) => {
      if (path !== EXEC) return undefined
      tokens.push(headers.authorization)
      return tokens.length === 1 ? expired : { json: result() }
    }
    await session.exec('true')
    expect(new Set(tokens).size).toBe(2)
    server.intercept = ({ path }) => (path === EXEC ? expired : undefined)
    const before = server.count('POST', EXEC)
    await expect(session.exec('true')).rejects.toMatchObject({ code: 'TOKEN_EXPIRED' })
    expect(server.count('POST', EXEC) - before).toBe(2)
  })

  test('[C-29] that is aborted rejects with the reason and is ended in the sandbox', async ({ server, session }) => {
    const controller = new AbortController()
    const reason = new Error('stop')
    server.intercept = ({ path }) => {
      if (path.endsWith('/signal')) return { status: 204 }
      if (path !== EXEC) return undefined
      controller.abort(reason)
      return new Promise(() => {})
    }
    await expect(session.exec('sleep 60', { signal: controller.signal, execId: 'run-1' })).rejects.toBe(reason)
    await expect.poll(() => server.requests.at(-1)?.path).toBe('/sandboxes/sb_1/v1/execs/run-1/signal')
    expect(JSON.parse(String(server.requests.at(-1)?.body))).toEqual({ signal: 'TERM', kill_after_seconds: 1 })
  })

  test('waits for its turn where as many commands run as may', async ({ server, session }) => {
    const busy = {
      status: 429,
      headers: { 'retry-after': '0' },
      json: envelope('RATE_LIMITED', 'at most 32 commands', { retryable: true }),
    }
    let asked = 0
    server.intercept = ({ path }) => (path === EXEC ? (asked++ < 2 ? busy : { json: result() }) : undefined)
    expect(await session.exec('true')).toMatchObject({ exitCode: 0 })
    expect(asked).toBe(3)
  })

  test('says where input goes that one request cannot hold', async ({ server, session }) => {
    server.intercept = ({ path }) =>
      path === EXEC ? { status: 413, json: envelope('PAYLOAD_TOO_LARGE', 'body: at most 9 bytes') } : undefined
    const said = { code: 'PAYLOAD_TOO_LARGE', status: 413, requestId: 'req_1' }
    const message = 'body: at most 9 bytes; give longer input to exec.start(…).stdin, or upload it as a file'
    await expect(session.exec('cat', { stdin: 'long' })).rejects.toMatchObject({ ...said, message })
    await expect(session.exec('cat')).rejects.toMatchObject({ ...said, message: 'body: at most 9 bytes' })
  })

  test('is refused with what the server says', async ({ server, session }) => {
    server.intercept = ({ path }) => (path === EXEC ? { status: 403, json: envelope('CAPABILITY_DENIED', 'exec not granted') } : undefined)
    await expect(session.exec('true')).rejects.toMatchObject({ code: 'CAPABILITY_DENIED', message: 'exec not granted' })
  })
})
