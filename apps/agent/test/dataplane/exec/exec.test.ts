import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { processesWith, until } from '../../support/processes.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

/** A number that no other test or run uses: it marks processes in the machine's list. */
const marker = (): string => `3${Math.floor(Math.random() * 1e7)}.${process.pid}`

describe('POST /exec', () => {
  test('answers output and exit, byte for byte', { tags: ['4-100'] }, async () => {
    expect(await dp.exec({ command: 'echo hi' })).toMatchObject({
      stdout: 'hi\n',
      stderr: '',
      exit_code: 0,
      signal: null,
      reason: 'exited',
      timed_out: false,
      oom_killed: false,
      spawn_error: null,
      stdout_bytes: 3,
      stdout_truncated: false,
      lossy: false,
      timeout_seconds: 60,
      metadata: { session_id: dp.sandbox.sessionId, sandbox_id: dp.sandbox.id },
    })
    expect(await dp.exec({ command: "printf 'a\\n\\n'" })).toMatchObject({ stdout: 'a\n\n' })
  })

  test('a non-zero exit is a result', { tags: ['4-101'] }, async () => {
    expect(await dp.exec({ command: 'echo e >&2; exit 3' })).toMatchObject({ exit_code: 3, stderr: 'e\n', reason: 'exited' })
  })

  test('argv runs without a shell, cmd is its name elsewhere', { tags: ['C-63'] }, async () => {
    expect(await dp.exec({ argv: ['/bin/echo', '$HOME', 'a b'] })).toMatchObject({ stdout: '$HOME a b\n' })
    expect(await dp.exec({ cmd: ['/bin/echo', 'x'] })).toMatchObject({ stdout: 'x\n' })
    expect(await dp.exec({ command: 'echo $0', shell: '/bin/sh' })).toMatchObject({ stdout: '/bin/sh\n' })
  })

  test('stdin is given whole and then ends; without one it is empty', async () => {
    expect(await dp.exec({ command: 'cat', stdin: 'abc' })).toMatchObject({ stdout: 'abc' })
    expect(await dp.exec({ command: 'cat', stdin: '' })).toMatchObject({ stdout: '' })
    expect(await dp.exec({ command: 'wc -c', stdin_base64: Buffer.alloc(3_000_000, 7).toString('base64') })).toMatchObject({
      stdout: '3000000\n',
    })
    expect(await dp.exec({ command: 'cat' })).toMatchObject({ stdout: '', exit_code: 0 })
  })

  test('the environment tells where it runs; the request adds to it and never loses PATH or HOME', async () => {
    const { stdout } = await dp.exec({
      command: 'echo "$BOXOFFICE_SESSION_ID $BOXOFFICE_SANDBOX_ID $BOXOFFICE_WORKSPACE $A"; test -n "$PATH" && test -w "$HOME"',
      env: { A: 'ü' },
    })
    expect(stdout).toBe(`${dp.sandbox.sessionId} ${dp.sandbox.id} ${dp.sandbox.workspacePath} ü\n`)
  })

  test('cwd is the workspace, or below it; the guest path means the same place', async () => {
    expect(await dp.exec({ command: 'mkdir -p sub && pwd' })).toMatchObject({ stdout: `${dp.sandbox.workspacePath}\n` })
    expect(await dp.exec({ command: 'pwd', cwd: 'sub' })).toMatchObject({ stdout: `${dp.sandbox.workspacePath}/sub\n` })
    expect(await dp.exec({ command: 'pwd', cwd: '/workspace/sub' })).toMatchObject({ stdout: `${dp.sandbox.workspacePath}/sub\n` })
  })

  test('the aliases of the timeout, and 0 or too much mean the maximum', async () => {
    expect(await dp.exec({ command: 'true', timeout: 5 })).toMatchObject({ timeout_seconds: 5 })
    expect(await dp.exec({ command: 'true', timeout_secs: 6 })).toMatchObject({ timeout_seconds: 6 })
    expect(await dp.exec({ command: 'true', timeout_seconds: 0 })).toMatchObject({ timeout_seconds: 3600 })
    expect(await dp.exec({ command: 'true', timeout_seconds: 1e6 })).toMatchObject({ timeout_seconds: 3600 })
  })
})

describe('how it ended', { tags: ['C-31', 'C-33'] }, () => {
  test('timed out: output so far, 124, nothing of its tree lives', { tags: ['4-102', 'C-65'] }, async () => {
    const id = marker()
    const started = performance.now()
    const result = await dp.exec({
      command: `echo before; sleep ${id} & setsid sleep ${id} & (setsid sleep ${id} &) ; sleep ${id}`,
      timeout: 1,
    })
    expect(result).toMatchObject({ exit_code: 124, reason: 'timed_out', timed_out: true, stdout: 'before\n' })
    expect(performance.now() - started).toBeLessThan(30_000)
    expect(processesWith(id)).toEqual([])
  })

  test('by a signal', async () => {
    expect(await dp.exec({ command: 'kill -TERM $$' })).toMatchObject({ exit_code: 143, signal: 'SIGTERM', reason: 'signaled' })
    expect(await dp.exec({ command: 'kill -KILL $$' })).toMatchObject({
      exit_code: 137,
      signal: 'SIGKILL',
      reason: 'signaled',
      oom_killed: false,
    })
  })

  test("a missing command inside a command string is the shell's own 127", async () => {
    expect(await dp.exec({ command: 'nonesuch-command' })).toMatchObject({ exit_code: 127, reason: 'exited', spawn_error: null })
  })

  test('every kind of spawn failure is a result with its message on stderr', async () => {
    await writeFile(join(dp.sandbox.workspacePath, 'plain'), 'x', { mode: 0o644 })
    await writeFile(join(dp.sandbox.workspacePath, 'broken'), Buffer.from([0x7f, 0x45, 0x4c, 0x46, 9, 9, 9]), { mode: 0o755 })
    const failures: [Record<string, unknown>, string, number][] = [
      [{ argv: ['nonesuch-command'] }, 'not_found', 127],
      [{ argv: ['./nonesuch'] }, 'not_found', 127],
      [{ argv: ['./plain'] }, 'permission_denied', 126],
      [{ argv: ['./broken'] }, 'not_executable', 126],
      [{ argv: ['true'], cwd: 'nonesuch' }, 'bad_cwd', 126],
    ]
    for (const [body, kind, code] of failures) {
      const result = await dp.exec(body)
      expect(result).toMatchObject({ reason: 'spawn_failed', exit_code: code, spawn_error: { kind } })
      expect(result.stderr).toContain((result.spawn_error as { message: string }).message)
    }
  })

  test('the exit comes with the main process, though a background child holds stdout', { tags: ['C-66'] }, async () => {
    const started = performance.now()
    expect(await dp.exec({ command: 'sleep 90 & echo done' })).toMatchObject({ stdout: 'done\n', exit_code: 0 })
    expect(performance.now() - started).toBeLessThan(60_000)
  })

  test('a sandbox that dies is SANDBOX_LOST, and no exit is made up', async () => {
    const own = await TestDataplane.start()
    try {
      const running = own.post('/exec', { command: 'touch up; sleep 60' })
      await until('the exec runs', () => own.sandbox.activity.running === 1)
      await own.sandbox.kill()
      own.sandbox.end({ lost: true, reason: 'died' })
      const response = await running
      expect(response.status).toBe(503)
      const body = (await response.json()) as { error: object }
      expect(body.error).toMatchObject({ code: 'SANDBOX_LOST', retryable: true, aliases: ['BACKEND_UNAVAILABLE'] })
      expect(JSON.stringify(body)).not.toContain('exit_code')
      expect((await own.post('/exec', { command: 'true' })).status).toBe(503)
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })
})

describe('output', () => {
  test('bytes that are not UTF-8 are replaced and said so; base64 is exact', { tags: ['C-34'] }, async () => {
    expect(await dp.exec({ command: "printf 'a\\377b'" })).toMatchObject({ stdout: 'a\ufffdb', lossy: true, stdout_bytes: 3 })
    expect(await dp.exec({ command: "printf 'a\\377b'", encoding: 'base64' })).toMatchObject({
      stdout: Buffer.from([97, 255, 98]).toString('base64'),
      lossy: false,
    })
  })

  test('head_tail keeps both ends and a notice, inside the limit', async () => {
    const { stdout, ...rest } = await dp.exec({ command: 'seq 1 100000', max_output_bytes: 1000 })
    expect(rest).toMatchObject({ stdout_truncated: true, stderr_truncated: false, stdout_bytes: 588895 })
    const text = stdout as string
    const [, head, bytes, tail] = /^([^.]*)\n\n\.\.\. \[(\d+) bytes truncated\] \.\.\.\n\n([^.]*)$/.exec(text) ?? []
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(1000)
    expect(head?.startsWith('1\n2\n3\n')).toBe(true)
    expect(tail?.endsWith('\n99999\n100000\n')).toBe(true)
    expect((head as string).length + Number(bytes) + (tail as string).length).toBe(588895)
    expect((head as string).length / ((head as string).length + (tail as string).length)).toBeCloseTo(0.6, 1)
  })

  test('head and tail add nothing', async () => {
    expect(await dp.exec({ command: 'seq 1 9', max_output_bytes: 4, output_keep: 'head' })).toMatchObject({
      stdout: '1\n2\n',
      stdout_truncated: true,
    })
    expect(await dp.exec({ command: 'seq 1 9', max_output_bytes: 4, output_keep: 'tail' })).toMatchObject({
      stdout: '8\n9\n',
      stdout_truncated: true,
    })
    expect(await dp.exec({ command: 'echo x', max_output_bytes: 0 })).toMatchObject({ stdout: '', stdout_truncated: true, stdout_bytes: 2 })
    expect(await dp.exec({ command: 'seq 1 9', max_output_bytes: 18 })).toMatchObject({ stdout_truncated: false, stdout_bytes: 18 })
  })

  test('a cut never splits a character', async () => {
    for (const output_keep of ['head', 'tail', 'head_tail']) {
      for (let max_output_bytes = 100; max_output_bytes < 104; max_output_bytes++) {
        const result = await dp.exec({ command: 'for i in $(seq 1 100); do printf "aü€😀"; done', max_output_bytes, output_keep })
        expect(result).toMatchObject({ lossy: false, stdout_truncated: true })
        expect(Buffer.byteLength(result.stdout as string)).toBeLessThanOrEqual(max_output_bytes)
      }
    }
  })

  test('200 MiB of output: the process is drained, memory is not', async () => {
    const before = process.memoryUsage()
    const result = await dp.exec({ command: 'yes | head -c 209715200' })
    const after = process.memoryUsage()
    expect(result).toMatchObject({ stdout_bytes: 209715200, stdout_truncated: true, exit_code: 0 })
    // `external` has the array buffers in it.
    expect(after.external - before.external).toBeLessThan(20 * 1024 * 1024)
  })
})

describe('refusals', { tags: ['4-100'] }, () => {
  const refusals: [string, unknown, number, string][] = [
    ['nothing to run', {}, 400, 'INVALID_REQUEST'],
    ['both', { command: 'a', argv: ['a'] }, 400, 'INVALID_REQUEST'],
    ['an empty command', { command: '' }, 400, 'INVALID_REQUEST'],
    ['an empty argv', { argv: [] }, 400, 'INVALID_REQUEST'],
    ['NUL', { command: 'a\0b' }, 400, 'INVALID_REQUEST'],
    ['a bad variable name', { command: 'a', env: { 'A-B': '1' } }, 400, 'INVALID_REQUEST'],
    ['a bad id', { command: 'a', exec_id: 'a/b' }, 400, 'INVALID_REQUEST'],
    ['a negative timeout', { command: 'a', timeout: -1 }, 400, 'INVALID_REQUEST'],
    ['too large a limit', { command: 'a', max_output_bytes: 16 * 1024 * 1024 + 1 }, 400, 'INVALID_REQUEST'],
    ['two kinds of stdin', { command: 'a', stdin: 'a', stdin_base64: 'YQ==' }, 400, 'INVALID_REQUEST'],
    ['[C-63] a command one byte too long', { command: `:${' '.repeat(128 * 1024 - 1)}` }, 413, 'PAYLOAD_TOO_LARGE'],
    [
      '[C-63] argv and env together one byte too long',
      { argv: ['true', 'x'.repeat(1024 * 1024 - 4)], env: { A: '' } },
      413,
      'PAYLOAD_TOO_LARGE',
    ],
    ['a list', [], 400, 'INVALID_REQUEST'],
  ]
  test.each(refusals)('%s', async (_name, body, status, code) => {
    const response = await dp.post('/exec', body)
    expect([response.status, ((await response.json()) as { error: { code: string } }).error.code]).toEqual([status, code])
  })

  test('the longest command runs', { tags: ['C-63'] }, async () => {
    const response = await dp.post('/exec', { command: `:${' '.repeat(128 * 1024 - 2)}` })
    expect(await response.json()).toMatchObject({ exit_code: 0, reason: 'exited' })
  })

  test('malformed JSON, another type, a body beyond 20 MiB', { tags: ['C-80'] }, async () => {
    const send = (body: string, type: string): Promise<Response> =>
      dp.fetch('/exec', { method: 'POST', body, headers: { 'Content-Type': type } })
    expect((await send('{', 'application/json')).status).toBe(400)
    expect((await send('a=b', 'application/x-www-form-urlencoded')).status).toBe(415)
    expect((await send(`{"command":"true"}${' '.repeat(20 * 1024 * 1024)}`, 'application/json')).status).toBe(413)
    expect((await send('{"command":"true"}', 'application/json; charset=utf-8')).status).toBe(200)
  })
})

describe('exec_id is get-or-create', () => {
  test('20 at once run once and all get the one result', async () => {
    const body = { command: 'echo line >> once; echo out; exit 4', exec_id: 'once' }
    const results = await Promise.all(Array.from({ length: 20 }, () => dp.exec(body)))
    for (const result of results) expect(result).toMatchObject({ exec_id: 'once', stdout: 'out\n', exit_code: 4 })
    expect(await readFile(join(dp.sandbox.workspacePath, 'once'), 'utf8')).toBe('line\n')
    expect(await dp.exec(body)).toMatchObject({ stdout: 'out\n', exit_code: 4 })
  })

  test('another command under the same id is EXEC_CONFLICT', async () => {
    await dp.exec({ command: 'true', exec_id: 'conflict' })
    const response = await dp.post('/exec', { command: 'false', exec_id: 'conflict' })
    expect([response.status, ((await response.json()) as { error: { code: string } }).error.code]).toEqual([409, 'EXEC_CONFLICT'])
  })

  test('a repeated result is exact up to the ring, beyond it the kept tail', async () => {
    const body = { command: 'head -c 3000000 /dev/zero | tr "\\0" "ü"; printf END', exec_id: 'ring', max_output_bytes: 16 * 1024 * 1024 }
    const first = await dp.exec(body)
    expect(first).toMatchObject({ stdout_truncated: false })
    const again = await dp.exec(body)
    expect(again).toMatchObject({ stdout_truncated: true, stdout_bytes: first.stdout_bytes, exit_code: 0 })
    expect((first.stdout as string).endsWith(again.stdout as string)).toBe(true)
    expect(Buffer.byteLength(again.stdout as string)).toBeGreaterThan(1_000_000)
  })
})
