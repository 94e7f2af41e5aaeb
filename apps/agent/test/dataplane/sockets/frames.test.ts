import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { type Encoding, TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

/** A socket with its token in the header. */
const connect = (kind: 'exec' | 'shell' = 'exec', encoding: Encoding = 'json'): Promise<TestSocket> =>
  ended(new TestSocket(`${dp.wsBase}/${kind}/ws`, encoding, { token: dp.token })).opened()

/** A socket without any credential. */
const anonymous = (path = '/exec/ws'): Promise<TestSocket> => ended(new TestSocket(dp.wsBase + path)).opened()

describe.each(['json', 'base64', 'binary'] as const)('frames, %s', (encoding) => {
  test('auth_ok, ready, output, exit, close 1000', { tags: ['4-120', '4-121', '4-122', '4-123'] }, async () => {
    const socket = await connect('exec', encoding)
    socket.start({ command: 'echo hi', exec_id: `hi-${encoding}` })
    expect((await socket.closed).code).toBe(1000)
    expect(socket.frames.map(({ type }) => type).filter((type) => type !== 'stdout')).toEqual(['auth_ok', 'ready', 'exit'])
    expect(socket.text()).toBe('hi\n')
    expect(socket.find('ready')).toMatchObject({
      exec_id: `hi-${encoding}`,
      attached: false,
      stdout: { offset: 0, oldest: 0 },
      stderr: { offset: 0, oldest: 0 },
    })
    expect(socket.find('ready')?.pid).toBeGreaterThan(0)
    expect(socket.find('exit')).toMatchObject({
      exit_code: 0,
      signal: null,
      reason: 'exited',
      timed_out: false,
      kill_cause: null,
      stdout_bytes: 3,
      stderr_bytes: 0,
    })
    if (encoding !== 'binary') expect(socket.find('stdout')).toMatchObject({ offset: 0, bytes: 3 })
  })

  test('stdin and its end', { tags: ['4-125'] }, async () => {
    const socket = await connect('exec', encoding)
    socket.start({ command: 'cat; echo err >&2' })
    socket.stdin('a\n')
    socket.stdin('ü\n')
    socket.eof()
    expect((await socket.closed).code).toBe(1000)
    expect([socket.text(), socket.text('stderr')]).toEqual(['a\nü\n', 'err\n'])
  })

  test('stdin closed from the start', async () => {
    const socket = await connect('exec', encoding)
    socket.start({ command: 'cat', stdin: 'closed' })
    expect(await socket.frame('exit')).toMatchObject({ exit_code: 0 })
  })

  test('signal', { tags: ['4-127'] }, async () => {
    const socket = await connect('exec', encoding)
    socket.start({ argv: ['sleep', '60'] })
    await socket.frame('ready')
    socket.send({ type: 'signal', signal: 'SIGTERM' })
    expect(await socket.frame('exit')).toMatchObject({ exit_code: 143, signal: 'SIGTERM', reason: 'signaled' })
    expect((await socket.closed).code).toBe(1000)
  })

  test('everything written before the exit precedes it', { tags: ['4-130'] }, async () => {
    const socket = await connect('exec', encoding)
    socket.start({ command: 'seq 1 200000' })
    await socket.closed
    expect(socket.bytes().length).toBe(1288895)
    expect(socket.frames.at(-1)?.type).toBe('exit')
    expect(socket.text().endsWith('\n199999\n200000\n')).toBe(true)
  })

  test('a chunk is at most 64 KiB, and offsets count on', { tags: ['4-135', 'C-36'] }, async () => {
    const socket = await connect('exec', encoding)
    socket.start({ command: 'head -c 5000000 /dev/zero' })
    await socket.closed
    let offset = 0
    for (const frame of socket.frames) {
      if (frame.type !== 'stdout') continue
      expect([frame.offset, frame.bytes <= 65536]).toEqual([offset, true])
      offset += frame.bytes
    }
    for (const piece of socket.output.stdout) expect(piece.length).toBeLessThanOrEqual(65536)
    expect(socket.bytes().length).toBe(5_000_000)
  })

  test('a spawn failure is an exit without ready', { tags: ['C-33'] }, async () => {
    const socket = await connect('exec', encoding)
    socket.start({ argv: ['nonesuch-command'] })
    expect((await socket.closed).code).toBe(1000)
    expect(socket.frames.map(({ type }) => type)).toEqual(['auth_ok', 'exit'])
    expect(socket.find('exit')).toMatchObject({ exit_code: 127, reason: 'spawn_failed', spawn_error: { kind: 'not_found' } })
  })

  test('a terminal has its size, and resize changes it', { tags: ['4-120', '4-126', '4-133', 'C-67'] }, async () => {
    const socket = await connect('shell', encoding)
    socket.start({ argv: ['sh', '-c', 'tty; stty size; read x; stty size; echo $TERM'], cols: 100, rows: 30 })
    expect(await socket.frame('ready')).toMatchObject({ size_owner: true, cols: 100, rows: 30 })
    await socket.until(() => socket.text().includes('30 100'))
    expect(socket.text()).toMatch(/^\/dev\/pts\/\d+\r\n/)
    socket.send({ type: 'resize', cols: 120, rows: 40 })
    socket.stdin('\n')
    await socket.closed
    expect(socket.text()).toContain('40 120\r\nxterm-256color\r\n')
    expect(socket.bytes('stderr').length).toBe(0)
  })
})

describe('bytes', () => {
  test.each(['base64', 'binary'] as const)('%s is exact', { tags: ['4-131'] }, async (encoding) => {
    const socket = await connect('exec', encoding)
    socket.start({ command: "printf '\\377\\000'" })
    await socket.closed
    expect(socket.bytes()).toEqual(Buffer.from([0xff, 0]))
  })

  test('as text, what is not UTF-8 is replaced and lossy', { tags: ['C-34'] }, async () => {
    const socket = await connect()
    socket.start({ command: "printf 'a\\377b'" })
    await socket.closed
    expect(socket.find('stdout')).toMatchObject({ data: 'a\ufffdb', bytes: 3, lossy: true })
  })

  test('characters across reads and across 64 KiB arrive whole', { tags: ['4-132'] }, async () => {
    const socket = await connect()
    const text = `x${'€😀ü'.repeat(60_000)}`
    socket.start({ command: 'cat; printf "\\342"; sleep 0.1; printf "\\202\\254"; printf "\\360\\237"' })
    for (let at = 0; at < text.length; at += 30_000) socket.stdin(text.slice(at, at + 30_000))
    socket.eof()
    await socket.closed
    expect(socket.text()).toBe(`${text}€\ufffd`)
    for (const frame of socket.frames.slice(0, -2)) if (frame.type === 'stdout') expect(frame.lossy).toBeUndefined()
  })
})

describe('frames out of order', { tags: ['C-40'] }, () => {
  test.each([
    [
      'a second start',
      async (socket: TestSocket) => {
        socket.start({ argv: ['sleep', '1'] })
        socket.start({ argv: ['sleep', '1'] })
      },
    ],
    ['stdin before start', async (socket: TestSocket) => socket.stdin('x')],
    ['JSON that is none', async (socket: TestSocket) => socket.ws.send('{')],
    ['a list', async (socket: TestSocket) => socket.ws.send('[]')],
    ['no type', async (socket: TestSocket) => socket.ws.send('{}')],
    ['a start of nothing', async (socket: TestSocket) => socket.start({})],
    ['a start of two things', async (socket: TestSocket) => socket.start({ command: 'a', argv: ['a'] })],
    [
      'stdin that is not base64',
      async (socket: TestSocket) => {
        socket.start({ command: 'cat' })
        socket.send({ type: 'stdin', data: '%%', encoding: 'base64' })
      },
    ],
  ])('%s: error and 4400', async (_name, act) => {
    const socket = await connect()
    await act(socket)
    expect((await socket.closed).code).toBe(4400)
    expect(socket.errorCode).toBe('INVALID_REQUEST')
  })

  test('an unknown type is an error that is not fatal; resize without a terminal and stdin after the end are nothing', async () => {
    const socket = await connect()
    socket.send({ type: 'nonesuch' })
    expect((await socket.frame('error')).error.code).toBe('INVALID_REQUEST')
    socket.send({ type: 'resize', cols: 10, rows: 10 })
    socket.start({ command: 'exec 0<&-; echo still' })
    socket.send({ type: 'resize', cols: 10, rows: 10 })
    for (let i = 0; i < 50; i++) socket.stdin('x')
    expect((await socket.closed).code).toBe(1000)
    expect(socket.text()).toBe('still\n')
  })

  test('a binary message without the subprotocol: 1003', async () => {
    const socket = await connect()
    socket.ws.send(Buffer.of(0, 1))
    expect((await socket.closed).code).toBe(1003)
  })

  test('a message above 1 MiB, and above 16 KiB before auth: 1009', { tags: ['4-135'] }, async () => {
    const socket = await connect()
    socket.start({ command: 'cat >/dev/null' })
    socket.stdin('x'.repeat(2 * 1024 * 1024))
    expect((await socket.closed).code).toBe(1009)
    const early = await anonymous()
    early.send({ type: 'auth', token: 'x'.repeat(17 * 1024) })
    expect((await early.closed).code).toBe(1009)
  })

  test('close: stdin ends, the exit is told, 1000; with detach only the socket goes', { tags: ['4-129'] }, async () => {
    const socket = await connect()
    socket.start({ command: 'cat; echo bye; exit 5' })
    await socket.frame('ready')
    socket.send({ type: 'close' })
    expect((await socket.closed).code).toBe(1000)
    expect(socket.find('exit')).toMatchObject({ exit_code: 5 })

    const detached = await connect()
    detached.start({ argv: ['sleep', '60'], detach: true, exec_id: 'outlives' })
    await detached.frame('ready')
    detached.send({ type: 'close' })
    expect((await detached.closed).code).toBe(1000)
    expect(detached.find('exit')).toBeUndefined()
    expect(await (await dp.fetch('/execs/outlives')).json()).toMatchObject({ state: 'running' })
    await dp.post('/execs/outlives/signal', { signal: 'KILL' })
  })

  test('close on one that ignores the end: TERM after 5 s', { tags: ['4-129'], timeout: 120_000 }, async () => {
    const socket = await connect()
    socket.start({ argv: ['sleep', '60'] })
    await socket.frame('ready')
    const started = performance.now()
    socket.send({ type: 'close' })
    expect(await socket.frame('exit')).toMatchObject({ reason: 'killed', kill_cause: 'closed', signal: 'SIGTERM' })
    expect(performance.now() - started).toBeGreaterThan(4900)
  })

  test('close ends a shell', { tags: ['4-129'] }, async () => {
    const socket = await connect('shell')
    socket.start({})
    await socket.until(() => socket.bytes().length > 0)
    socket.send({ type: 'close' })
    await socket.frame('exit')
    expect((await socket.closed).code).toBe(1000)
  })
})
