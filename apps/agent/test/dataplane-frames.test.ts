import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from './support/dataplane.ts'
import { until } from './support/processes.ts'
import { type Encoding, TestSocket } from './support/socket.ts'

let dp: TestDataplane
const open: TestSocket[] = []

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())
afterEach(async () => {
  for (const socket of open.splice(0)) {
    socket.ws.terminate()
    await socket.closed
  }
})

/** A socket with its token in the header. */
const connect = async (kind: 'exec' | 'shell' = 'exec', encoding: Encoding = 'json'): Promise<TestSocket> => {
  const socket = new TestSocket(`${dp.wsBase}/${kind}/ws`, encoding, { token: dp.token })
  open.push(socket)
  return socket.opened()
}

/** A socket without any credential. */
const anonymous = async (path = '/exec/ws'): Promise<TestSocket> => {
  const socket = new TestSocket(dp.wsBase + path)
  open.push(socket)
  return socket.opened()
}

const errorCode = (socket: TestSocket): string | undefined => socket.find('error')?.error.code

describe('[C-38, 4-56] opening', () => {
  test('with a header: auth_ok at once', async () => {
    const socket = await connect()
    expect(await socket.frame('auth_ok')).toMatchObject({
      session_id: dp.sandbox.sessionId,
      sandbox_id: dp.sandbox.id,
      granted_capabilities: ['fs_read', 'fs_write', 'shell', 'exec'],
    })
  })

  test('with X-Api-Key', async () => {
    const socket = new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { headers: { 'X-Api-Key': dp.token } })
    open.push(socket)
    await socket.frame('auth_ok')
  })

  test('with an auth frame', async () => {
    const socket = await anonymous()
    socket.send({ type: 'auth', token: dp.token })
    await socket.frame('auth_ok')
  })

  test('with a subprotocol, of which only the first is echoed', async () => {
    const { WebSocket } = await import('ws')
    const ws = new WebSocket(`${dp.wsBase}/exec/ws`, ['boxoffice.v1', `bearer.${dp.token}`])
    const message = await new Promise((resolve) => ws.on('message', (data) => resolve(JSON.parse(String(data)))))
    expect(message).toMatchObject({ type: 'auth_ok' })
    expect(ws.protocol).toBe('boxoffice.v1')
    ws.terminate()
  })

  test('a bad header is refused before the upgrade', async () => {
    const refusals: [string, number, string][] = [
      ['nonsense', 401, 'UNAUTHENTICATED'],
      [await dp.sign({ exp: Math.floor(Date.now() / 1000) - 60 }), 401, 'TOKEN_EXPIRED'],
      [await dp.sign({ aud: 'sb_other', sandbox_id: 'sb_other' }), 403, 'FORBIDDEN'],
      [await dp.sign({ gen: 0 }), 410, 'SESSION_EXPIRED'],
      [await dp.sign({ sid: 'ssn_other' }), 403, 'FORBIDDEN'],
    ]
    for (const [token, status, code] of refusals) {
      const { status: got, body } = await new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token }).refused()
      expect([got, body.error.code]).toEqual([status, code])
    }
  })

  test.each([
    ['another actor', { sub: 'agent' }],
    ['another session', { sid: 'ssn_other' }],
    ['another session with its own sandbox', { sid: 'ssn_other', aud: 'sb_other', sandbox_id: 'sb_other' }],
    ['another session that has ended', { sid: 'ssn_ended', aud: 'sb_ended', sandbox_id: 'sb_ended' }],
  ])('a frame with the token of %s than the header: 4401', async (_name, claims) => {
    dp.revocations.apply({ sessions: [{ session_id: 'ssn_ended', reason: 'released', until: Date.now() / 1000 + 600 }], tokens: [] })
    const socket = await connect()
    socket.send({ type: 'auth', token: await dp.sign(claims) })
    expect((await socket.closed).code).toBe(4401)
    expect(errorCode(socket)).toBe('UNAUTHENTICATED')
  })

  test('[C-69] a foreign origin is refused, the same origin is not; cookies and queries never authenticate', async () => {
    expect(
      (await new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token, origin: 'http://evil.example' }).refused()).status,
    ).toBe(403)
    const same = new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token, origin: dp.origin })
    open.push(same)
    await same.frame('auth_ok')
    const query = await anonymous(`/exec/ws?token=${dp.token}`)
    query.start({ command: 'true' })
    expect((await query.closed).code).toBe(4401)
  })

  test('an unknown route is 404', async () => {
    expect((await new TestSocket(`${dp.wsBase}/nonesuch/ws`, 'json', { token: dp.token }).refused()).status).toBe(404)
    expect((await new TestSocket(`${dp.wsBase}/v1/exec/ws`, 'json', { token: dp.token }).refused()).status).toBe(404)
  })

  test('[4-56] no auth for 5 s: error and 4401', async () => {
    const socket = await anonymous()
    const started = performance.now()
    expect((await socket.closed).code).toBe(4401)
    expect(errorCode(socket)).toBe('UNAUTHENTICATED')
    expect(performance.now() - started).toBeGreaterThan(4500)
  }, 10_000)

  test.each(['start', 'stdin', 'resize', 'signal', 'close'])('[4-124] %s before auth: 4401 and nothing starts', async (type) => {
    const socket = await anonymous()
    socket.send({ type, command: 'touch /tmp/never', data: 'x', signal: 'TERM', cols: 1, rows: 1 })
    expect((await socket.closed).code).toBe(4401)
    expect(errorCode(socket)).toBe('UNAUTHENTICATED')
  })

  test('[4-128, C-68] ping is answered before auth, but not without end', async () => {
    const socket = await anonymous()
    socket.send({ type: 'ping', id: 7, ts: 'then' })
    expect(await socket.frame('pong')).toEqual({ type: 'pong', id: 7, ts: 'then' })
    for (let i = 0; i < 30; i++) socket.send({ type: 'ping' })
    expect((await socket.closed).code).toBe(4429)
  })

  test('[4-105] exec needs exec, shell needs shell: one does not grant the other', async () => {
    for (const [kind, caps, closes] of [
      ['exec', ['shell', 'fs_read', 'fs_write'], true],
      ['shell', ['exec'], true],
      ['exec', ['exec'], false],
      ['shell', ['shell'], false],
    ] as const) {
      const socket = new TestSocket(`${dp.wsBase}/${kind}/ws`, 'json', { token: await dp.sign({ caps: [...caps] }) })
      open.push(socket)
      await socket.opened()
      socket.start(kind === 'exec' ? { command: 'true' } : {})
      if (closes) {
        expect((await socket.closed).code).toBe(4403)
        expect(errorCode(socket)).toBe('CAPABILITY_DENIED')
      } else await socket.frame('ready')
    }
  })
})

describe.each(['json', 'base64', 'binary'] as const)('frames, %s', (encoding) => {
  test('[4-120..4-123] auth_ok, ready, output, exit, close 1000', async () => {
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

  test('[4-125] stdin and its end', async () => {
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

  test('[4-127] signal', async () => {
    const socket = await connect('exec', encoding)
    socket.start({ argv: ['sleep', '60'] })
    await socket.frame('ready')
    socket.send({ type: 'signal', signal: 'SIGTERM' })
    expect(await socket.frame('exit')).toMatchObject({ exit_code: 143, signal: 'SIGTERM', reason: 'signaled' })
    expect((await socket.closed).code).toBe(1000)
  })

  test('[4-130] everything written before the exit precedes it', async () => {
    const socket = await connect('exec', encoding)
    socket.start({ command: 'seq 1 200000' })
    await socket.closed
    expect(socket.bytes().length).toBe(1288895)
    expect(socket.frames.at(-1)?.type).toBe('exit')
    expect(socket.text().endsWith('\n199999\n200000\n')).toBe(true)
  })

  test('[4-135, C-36] a chunk is at most 64 KiB, and offsets count on', async () => {
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

  test('[C-33] a spawn failure is an exit without ready', async () => {
    const socket = await connect('exec', encoding)
    socket.start({ argv: ['nonesuch-command'] })
    expect((await socket.closed).code).toBe(1000)
    expect(socket.frames.map(({ type }) => type)).toEqual(['auth_ok', 'exit'])
    expect(socket.find('exit')).toMatchObject({ exit_code: 127, reason: 'spawn_failed', spawn_error: { kind: 'not_found' } })
  })

  test('[4-120, 4-126, 4-133, C-67] a terminal has its size, and resize changes it', async () => {
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
  test.each(['base64', 'binary'] as const)('[4-131] %s is exact', async (encoding) => {
    const socket = await connect('exec', encoding)
    socket.start({ command: "printf '\\377\\000'" })
    await socket.closed
    expect(socket.bytes()).toEqual(Buffer.from([0xff, 0]))
  })

  test('[C-34] as text, what is not UTF-8 is replaced and lossy', async () => {
    const socket = await connect()
    socket.start({ command: "printf 'a\\377b'" })
    await socket.closed
    expect(socket.find('stdout')).toMatchObject({ data: 'a\ufffdb', bytes: 3, lossy: true })
  })

  test('[4-132] characters across reads and across 64 KiB arrive whole', async () => {
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

describe('[C-40] frames out of order', () => {
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
    expect(errorCode(socket)).toBe('INVALID_REQUEST')
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

  test('[4-135] a message above 1 MiB, and above 16 KiB before auth: 1009', async () => {
    const socket = await connect()
    socket.start({ command: 'cat >/dev/null' })
    socket.stdin('x'.repeat(2 * 1024 * 1024))
    expect((await socket.closed).code).toBe(1009)
    const early = await anonymous()
    early.send({ type: 'auth', token: 'x'.repeat(17 * 1024) })
    expect((await early.closed).code).toBe(1009)
  })

  test('[4-129] close: stdin ends, the exit is told, 1000; with detach only the socket goes', async () => {
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

  test('[4-129] close on one that ignores the end: TERM after 5 s', async () => {
    const socket = await connect()
    socket.start({ argv: ['sleep', '60'] })
    await socket.frame('ready')
    const started = performance.now()
    socket.send({ type: 'close' })
    expect(await socket.frame('exit')).toMatchObject({ reason: 'killed', kill_cause: 'closed', signal: 'SIGTERM' })
    expect(performance.now() - started).toBeGreaterThan(4900)
  }, 10_000)

  test('[4-129] close ends a shell', async () => {
    const socket = await connect('shell')
    socket.start({})
    await socket.until(() => socket.bytes().length > 0)
    socket.send({ type: 'close' })
    await socket.frame('exit')
    expect((await socket.closed).code).toBe(1000)
  })
})

describe('ends', () => {
  test('[C-27] a renewal keeps the socket, one of another actor does not', async () => {
    const socket = await connect()
    await socket.frame('auth_ok')
    socket.send({ type: 'auth', token: await dp.sign({ exp: Math.floor(Date.now() / 1000) + 900 }) })
    await socket.until(() => socket.frames.filter(({ type }) => type === 'auth_ok').length === 2)
    socket.send({ type: 'auth', token: await dp.sign({ sub: 'agent' }) })
    expect((await socket.closed).code).toBe(4401)
    expect(errorCode(socket)).toBe('UNAUTHENTICATED')
  })

  test('[C-28, C-30] a released session: the process dies, its exit is told, then error and 4410; an idle socket closes at once', async () => {
    const own = await TestDataplane.start()
    try {
      const [busy, idle] = (await Promise.all(
        [0, 1].map(() => new TestSocket(`${own.wsBase}/exec/ws`, 'json', { token: own.token }).opened()),
      )) as [TestSocket, TestSocket]
      busy.start({ argv: ['sleep', '60'] })
      await Promise.all([busy.frame('ready'), idle.frame('auth_ok')])
      const started = performance.now()
      own.revocations.apply({
        sessions: [{ session_id: own.sandbox.sessionId, reason: 'released', until: Date.now() / 1000 + 600 }],
        tokens: [],
      })
      expect([(await busy.closed).code, (await idle.closed).code]).toEqual([4410, 4410])
      expect(performance.now() - started).toBeLessThan(2000)
      expect(busy.find('exit')).toMatchObject({ reason: 'killed', kill_cause: 'released' })
      expect(busy.frames.map(({ type }) => type).slice(-2)).toEqual(['exit', 'error'])
      expect(errorCode(idle)).toBe('SESSION_RELEASED')
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })

  test('[C-28] a renewal that grants less ends what needs more: 4403', async () => {
    const socket = await connect()
    socket.start({ argv: ['sleep', '60'] })
    await socket.frame('ready')
    socket.send({ type: 'auth', token: await dp.sign({ caps: ['fs_read'] }) })
    expect((await socket.closed).code).toBe(4403)
    expect(socket.find('exit')).toMatchObject({ reason: 'killed', kill_cause: 'revoked' })
  })

  test('a sandbox that dies: SANDBOX_LOST, 4503, no exit', async () => {
    const own = await TestDataplane.start()
    try {
      const [busy, idle] = (await Promise.all(
        [0, 1].map(() => new TestSocket(`${own.wsBase}/exec/ws`, 'json', { token: own.token }).opened()),
      )) as [TestSocket, TestSocket]
      busy.start({ argv: ['sleep', '60'] })
      await Promise.all([busy.frame('ready'), idle.frame('auth_ok')])
      await own.sandbox.kill()
      own.sandbox.end({ lost: true, reason: 'died' })
      expect([(await busy.closed).code, (await idle.closed).code]).toEqual([4503, 4503])
      expect([errorCode(busy), errorCode(idle)]).toEqual(['SANDBOX_LOST', 'SANDBOX_LOST'])
      expect(busy.find('exit')).toBeUndefined()
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })

  test('[C-37] the agent goes down: 1001, and the process lives', async () => {
    const own = await TestDataplane.start()
    try {
      const socket = await new TestSocket(`${own.wsBase}/exec/ws`, 'json', { token: own.token }).opened()
      socket.start({ argv: ['sleep', '60'] })
      await socket.frame('ready')
      await own.dataplane.close()
      expect((await socket.closed).code).toBe(1001)
      expect(socket.find('exit')).toBeUndefined()
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })

  test('an attached socket counts, and no longer when it is gone', async () => {
    const socket = await connect()
    socket.start({ command: 'read x' })
    await socket.frame('ready')
    expect(dp.sandbox.activity.attached).toBe(1)
    socket.eof()
    await socket.closed
    await until('it no longer counts', () => dp.sandbox.activity.attached === 0)
  })
})
