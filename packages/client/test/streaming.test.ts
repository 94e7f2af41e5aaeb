import { createHash } from 'node:crypto'
import { describe, expect } from 'vitest'
import { GapError } from '../src/index.ts'
import { fail } from './fixture/fake-server.ts'
import { pattern, test } from './fixture/server-test.ts'

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const KiB = 1024

describe('a streamed exec', () => {
  test('[4-123, 4-130] gives its output, then its exit', async ({ server, session }) => {
    server.onStart = (process) => {
      process.write('hello\n')
      process.write('oops\n', 'stderr')
      process.exit({ exit_code: 3 })
    }
    const run = await session.exec.start('echo hello')
    expect(run.pid).toBe(42)
    expect(await run.stdout.text()).toBe('hello\n')
    expect(await run.stderr.text()).toBe('oops\n')
    expect(await run.exit).toMatchObject({ exitCode: 3, signal: null, reason: 'exited', stdoutBytes: 6 })
  })

  test('[C-33] that cannot be spawned resolves with an exit that tells why', async ({ server, session }) => {
    server.onSocketStart = (socket) => {
      const spawn_error = { kind: 'not_found', errno: 'ENOENT', message: 'no such program' }
      const counts = { timed_out: false, oom_killed: false, kill_cause: null, duration_ms: 0, stdout_bytes: 0, stderr_bytes: 0 }
      socket.send(JSON.stringify({ type: 'exit', exit_code: 127, signal: null, reason: 'spawn_failed', spawn_error, ...counts }))
      socket.close(1000)
      return true
    }
    const run = await session.exec.start(['nope'])
    expect(run.pid).toBeUndefined()
    expect(await run.stdout.text()).toBe('')
    expect(await run.exit).toMatchObject({ exitCode: 127, reason: 'spawn_failed', spawnError: { kind: 'not_found' } })
  })

  test('asks for the binary subprotocol, authenticates by frame and acknowledges', async ({ server, session }) => {
    server.onStart = (process) => process.exit()
    await (await session.exec.start(['true'], { cwd: 'a', env: { B: 'c' }, timeoutSeconds: 5, execId: 'run-1' })).exit
    expect(server.processes.get('run-1')?.start).toMatchObject({
      argv: ['true'],
      cwd: 'a',
      env: { B: 'c' },
      timeout_seconds: 5,
      exec_id: 'run-1',
      ack: true,
      stdout_offset: 0,
    })
    expect(server.authFrames).toHaveLength(1)
  })
})

describe('a connection that drops', () => {
  test('loses no byte and repeats none, however often', async ({ server, session }) => {
    const total = 6_000_000
    const whole = pattern(total)
    server.onStart = (process) => {
      process.write(whole)
      process.exit({ exit_code: 7 })
    }
    const run = await session.exec.start('produce')
    const hash = createHash('sha256')
    let read = 0
    let cuts = 0
    for await (const bytes of run.stdout) {
      hash.update(bytes)
      read += bytes.length
      if (read > (cuts + 1) * 300_000 && cuts < 15) {
        cuts++
        server.cut(cuts % 3 === 0 ? undefined : 1001)
      }
    }
    expect(cuts).toBe(15)
    expect(read).toBe(total)
    expect(hash.digest('hex')).toBe(sha256(whole))
    expect(await run.exit).toMatchObject({ exitCode: 7 })
    const process = server.processes.get(run.execId)
    expect(server.processes.size).toBe(1)
    expect(process?.connections).toBeGreaterThan(1)
  })

  test('before `ready` starts again under the same id, and only attaches after it', async ({ server, session }) => {
    const starts: Record<string, unknown>[] = []
    server.onSocketStart = (socket, start) => {
      starts.push(start)
      if (starts.length > 1) return false
      socket.terminate()
      return true
    }
    server.onStart = (process) => process.write('x')
    const run = await session.exec.start('once')
    await run.outputReaches(1)
    server.cut(1001)
    server.processes.get(run.execId)?.exit()
    await run.exit
    expect(starts.map(({ exec_id, attach }) => [exec_id, attach])).toEqual([
      [run.execId, undefined],
      [run.execId, undefined],
      [undefined, run.execId],
    ])
    expect(starts[2]).not.toHaveProperty('command')
  })

  test('resumes stdin exactly where the process stands', async ({ server, session }) => {
    const run = await session.exec.start('cat > file')
    const process = server.processes.get(run.execId)
    const input = pattern(2_000_000)
    const pieces = Array.from({ length: 40 }, (_, i) => input.subarray(i * 50_000, (i + 1) * 50_000))
    for (const [index, piece] of pieces.entries()) {
      await run.stdin.write(piece)
      if (index % 7 === 3) server.cut(index % 2 ? 1001 : undefined)
    }
    await run.stdin.end()
    await expect.poll(() => process?.stdinEnded).toBe(true)
    process?.exit()
    await run.exit
    expect(sha256(Buffer.concat(process?.stdin ?? []))).toBe(sha256(input))
    expect(process?.connections).toBeGreaterThan(3)
  })

  test('takes signals and the close that were asked for meanwhile along', async ({ server, session }) => {
    const run = await session.exec.start('sleep 60')
    const process = server.processes.get(run.execId)
    server.cut()
    await expect.poll(() => process?.socket).toBeUndefined()
    run.signal('SIGINT')
    run.close()
    await expect.poll(() => process?.frames.map((frame) => frame.signal ?? frame.type)).toEqual(expect.arrayContaining(['SIGINT', 'close']))
    process?.exit({ exit_code: 130, signal: 'SIGINT', reason: 'signaled' })
    expect(await run.exit).toMatchObject({ exitCode: 130, signal: 'SIGINT' })
  })

  test('tells of bytes that are lost, then goes on', async ({ server, session }) => {
    server.onStart = (process) => process.write('0123456789')
    const run = await session.exec.start('produce')
    await run.outputReaches(10)
    server.onSocketStart = () => {
      const process = server.processes.get(run.execId)
      process?.write('lost!kept')
      process?.forget(15)
      process?.exit()
      server.onSocketStart = () => false
      return false
    }
    server.cut()
    const seen: string[] = []
    const read = async () => {
      for await (const bytes of run.stdout) seen.push(new TextDecoder().decode(bytes))
    }
    const gap = await read().catch((error: unknown) => error)
    expect(gap).toBeInstanceOf(GapError)
    expect(gap).toMatchObject({ code: 'OUTPUT_GAP', stream: 'stdout', from: 10, to: 15 })
    await read()
    expect(seen.join('')).toBe('0123456789kept')
    expect(await run.exit).toMatchObject({ exitCode: 0 })
  })

  test('drops what nobody reads also behind lost bytes, so that the process is not held up', async ({ server, session }) => {
    server.onStart = (process) => process.write('0123456789', 'stderr')
    const run = await session.exec.start('produce')
    await run.outputReaches(10, 'stderr')
    server.onSocketStart = () => {
      const process = server.processes.get(run.execId)
      process?.write('lost!', 'stderr')
      process?.forget(15, 'stderr')
      process?.write(pattern(2_000_000), 'stderr')
      process?.write('whole')
      process?.exit()
      server.onSocketStart = () => false
      return false
    }
    server.cut()
    expect(await run.text()).toBe('whole')
    expect(await run.exit).toMatchObject({ exitCode: 0, stderrBytes: 2_000_015 })
  })

  test('gives up with a ConnectionError after the window', async ({ server }) => {
    const session = await server.client({ reconnectWindowMs: 600 }).session('thread-1')
    const run = await session.exec.start('sleep 60')
    server.onSocketStart = (socket) => {
      socket.terminate()
      return true
    }
    server.cut()
    await expect(run.exit).rejects.toMatchObject({ name: 'ConnectionError', code: 'CONNECTION_FAILED' })
    await expect(run.stdout.text()).rejects.toMatchObject({ code: 'CONNECTION_FAILED' })
    await expect(run.stdin.write('x')).rejects.toMatchObject({ code: 'CONNECTION_FAILED' })
  })
})

describe('flow control', () => {
  test('acknowledges only what was read, so that a reader who stops stops the process', async ({ server, session }) => {
    const whole = pattern(4_000_000)
    server.onStart = (process) => {
      process.write(whole)
      process.exit()
    }
    const run = await session.exec.start('produce')
    const stream = server.processes.get(run.execId)?.streams.stdout
    await run.outputReaches(768 * KiB)
    expect(stream?.sent).toBe(768 * KiB)
    expect(stream?.acknowledged).toBe(0)
    expect(sha256(await run.stdout.bytes())).toBe(sha256(whole))
    expect(stream?.mostAhead).toBeLessThanOrEqual(768 * KiB)
    await run.exit
  })

  test('has at most 256 KiB of stdin on its way, and acknowledgements pass', async ({ server, session }) => {
    const run = await session.exec.start('slow')
    const process = server.processes.get(run.execId)
    if (process === undefined) throw new Error('not started')
    process.stdinConfirmed = 0
    const written = run.stdin.write(pattern(1_000_000))
    await expect.poll(() => process.stdinBytes).toBe(256 * KiB)
    process.write('still here')
    await run.outputReaches(10)
    expect(process.stdinBytes).toBe(256 * KiB)
    process.stdinConfirmed = undefined
    await written
    await run.stdin.end()
    await expect.poll(() => process.stdinBytes).toBe(1_000_000)
    process.exit()
    await run.exit
    expect(sha256(Buffer.concat(process.stdin))).toBe(sha256(pattern(1_000_000)))
  })

  test('echoes more than every buffer holds when both sides are served', async ({ server, session }) => {
    server.onStart = (process) => {
      process.echo = true
    }
    const run = await session.exec.start('cat')
    const input = pattern(5_000_000)
    const [output] = await Promise.all([
      run.stdout.bytes(),
      run.stdin.from([input.subarray(0, 3_000_000), input.subarray(3_000_000)] as never),
    ])
    expect(sha256(output)).toBe(sha256(input))
    await run.exit
  })
})

describe('the end of a connection', () => {
  const rows = [
    { close: 4409, code: 'TAKEN_OVER' },
    { close: 4410, code: 'SESSION_RELEASED' },
    { close: 4404, code: 'EXEC_NOT_FOUND' },
    { close: 4403, code: 'CAPABILITY_DENIED' },
    { close: 4400, code: 'INVALID_REQUEST' },
    { close: 4503, code: 'SANDBOX_LOST' },
  ]
  test.for(rows)(
    'with $close is a typed $code, never a made-up exit, and no new connection',
    async ({ close, code }, { server, session }) => {
      server.onStart = (process) => process.write('so far')
      const run = await session.exec.start('sleep 60')
      await run.outputReaches(6)
      const process = server.processes.get(run.execId)
      if (process?.socket === undefined) throw new Error('not connected')
      fail(process.socket, close, code, close === 4503)
      await expect(run.exit).rejects.toMatchObject({ code })
      // What had come can still be read; then the error.
      const seen: string[] = []
      const read = async () => {
        for await (const bytes of run.stdout) seen.push(new TextDecoder().decode(bytes))
      }
      await expect(read()).rejects.toMatchObject({ code })
      expect(seen).toEqual(['so far'])
      expect(process.connections).toBe(1)
    },
  )

  test('with 4401 renews the token and attaches again', async ({ server, session }) => {
    server.onStart = (process) => process.write('a')
    const run = await session.exec.start('sleep 60')
    await run.outputReaches(1)
    const process = server.processes.get(run.execId)
    if (process?.socket === undefined) throw new Error('not connected')
    fail(process.socket, 4401, 'TOKEN_EXPIRED')
    await expect.poll(() => process.connections).toBe(2)
    process.write('b')
    process.exit()
    expect(await run.stdout.text()).toBe('ab')
    expect(server.count('POST', '/v1/sandbox/sessions/')).toBe(1)
    expect(new Set(server.authFrames).size).toBe(2)
  })

  test('with 4401 for a fresh token too is an error', async ({ server, session }) => {
    server.onAuth = (socket) => {
      fail(socket, 4401, 'UNAUTHENTICATED')
      return true
    }
    await expect(session.exec.start('true')).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
    expect(server.authFrames).toHaveLength(2)
  })
})

describe('leaving', () => {
  test('detach tells where, and attach goes on there', async ({ server, session }) => {
    server.onStart = (process) => process.write('first ')
    const run = await session.exec.start('work', { detach: true })
    for await (const _ of run.stdout) break
    const position = run.detach()
    expect(position).toEqual({ execId: run.execId, stdoutOffset: 6, stderrOffset: 0 })
    await expect(run.exit).rejects.toMatchObject({ code: 'DETACHED' })
    const process = server.processes.get(run.execId)
    process?.write('second')
    process?.exit()
    const again = await session.exec.attach(position.execId, position)
    expect(await again.text()).toBe('second')
    expect(await again.exit).toMatchObject({ exitCode: 0 })
  })

  test('an abort asks for the end and rejects with the reason', async ({ server, session }) => {
    const controller = new AbortController()
    const run = await session.exec.start('sleep 60', { signal: controller.signal })
    const process = server.processes.get(run.execId)
    const reason = new Error('changed my mind')
    controller.abort(reason)
    await expect(run.exit).rejects.toBe(reason)
    await expect.poll(() => process?.frames.map((frame) => frame.type)).toEqual(['ping', 'close'])
    const asked = () => server.requests.filter(({ path }) => path.endsWith('/signal')).map(({ body }) => JSON.parse(String(body)))
    await expect.poll(asked).toEqual([{ signal: 'TERM', kill_after_seconds: 1 }])
    await expect(session.exec.start('true', { signal: controller.signal })).rejects.toBe(reason)
  })

  test('an abort after that leaves the process running', async ({ server, session }) => {
    const controller = new AbortController()
    const run = await session.exec.start('work', { detach: true, signal: controller.signal })
    const process = server.processes.get(run.execId)
    run.detach()
    controller.abort()
    await expect(run.exit).rejects.toMatchObject({ code: 'DETACHED' })
    await expect.poll(() => process?.socket).toBeUndefined()
    expect(process?.frames.map((frame) => frame.type)).not.toContain('close')
    expect(server.count('POST', '/sandboxes/sb_1/v1/execs')).toBe(0)
  })

  test('nothing remains after the exit: no timer, no socket', async ({ server, session }) => {
    server.onStart = (process) => {
      process.write(pattern(300_000))
      process.exit()
    }
    // Not `expect.poll`, which has a timer itself.
    const noTimer = async () => {
      while (process.getActiveResourcesInfo().includes('Timeout')) await new Promise(setImmediate)
    }
    await noTimer()
    for (let i = 0; i < 5; i++) {
      const run = await session.exec.start('produce')
      await run.text()
      await run.exit
    }
    await noTimer()
    for (const process of server.processes.values()) expect(process.socket).toBeUndefined()
  })
})

describe('a token that ages', () => {
  test('[C-27] is renewed on the open socket before it ends', async ({ server }) => {
    server.tokenSeconds = 2
    const session = await server.client().session('thread-1')
    const run = await session.exec.start('sleep 60')
    await expect.poll(() => server.authFrames.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(3)
    expect(new Set(server.authFrames).size).toBe(server.authFrames.length)
    expect(server.processes.get(run.execId)?.connections).toBe(1)
    server.processes.get(run.execId)?.exit()
    await run.exit
  })
})
