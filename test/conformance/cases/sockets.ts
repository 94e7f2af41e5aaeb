import assert from 'node:assert/strict'
import { type Case, check } from '../case.ts'
import { refused } from '../expect.ts'
import type { Socket } from '../socket.ts'
import type { Target } from '../target.ts'

const run = async (t: Target, fields: Record<string, unknown>, options = {}): Promise<Socket> =>
  t.socket(await t.shared(), '/exec/ws', options).start({ encoding: 'base64', ...fields })

/** Contract 3.3 to 3.6: sockets. Data is checked in both encodings. */
export const socketCases: readonly Case[] = [
  check('4-120, 4-121, 4-122, 4-123', 'auth_ok, ready, output, exit, 1000: in this order', async (t) => {
    for (const binary of [false, true]) {
      const socket = await run(t, { command: 'echo hi' }, { binary })
      assert.equal((await socket.closed).code, 1000)
      assert.equal(socket.text(), 'hi\n')
      const types = socket.frames.map(({ type }) => type).filter((type) => type !== 'stdout')
      assert.deepEqual(types, ['auth_ok', 'ready', 'exit'])
      const exit = await socket.frame('exit')
      assert.deepEqual([exit.exit_code, exit.reason, exit.stdout_bytes], [0, 'exited', 3])
    }
  }),
  check('4-56, C-38', 'auth by frame; by subprotocol, of which only the first is echoed', async (t) => {
    const grant = await t.shared()
    const byFrame = t.socket(grant, '/exec/ws', { token: null })
    await byFrame.send({ type: 'auth', token: grant.token })
    const ok = await byFrame.frame('auth_ok')
    assert.deepEqual([ok.session_id, ok.sandbox_id], [grant.session_id, grant.sandbox.id])
    const byProtocol = t.socket(grant, '/exec/ws', { token: null, protocols: ['boxoffice.v1', `bearer.${grant.token}`] })
    await byProtocol.frame('auth_ok')
    assert.equal(byProtocol.protocol, 'boxoffice.v1')
    byFrame.close()
    byProtocol.close()
  }),
  check('4-56', 'no auth within 5 s: error and 4401', async (t) => {
    assert.deepEqual(await t.socket(await t.shared(), '/exec/ws', { token: null }).failure(), ['UNAUTHENTICATED', 4401])
  }),
  check('C-38, C-47', 'a bad header is refused before the upgrade, an unknown route too', async (t) => {
    const [grant, other] = [await t.shared(), await t.ensure()]
    assert.deepEqual(await t.socket(grant, '/exec/ws', { token: 'nonsense' }).refused, { status: 401, code: 'UNAUTHENTICATED' })
    assert.deepEqual(await t.socket(grant, '/exec/ws', { token: other.token }).refused, { status: 403, code: 'FORBIDDEN' })
    assert.equal((await t.socket(grant, '/nonesuch/ws').refused)?.status, 404)
    const mixed = t.socket(grant, '/exec/ws')
    await mixed.send({ type: 'auth', token: other.token })
    assert.deepEqual(await mixed.failure(), ['UNAUTHENTICATED', 4401])
  }),
  check('C-69', 'a foreign Origin is refused before the upgrade', async (t) => {
    assert.equal((await t.socket(await t.shared(), '/exec/ws', { headers: { origin: 'http://evil.example' } }).refused)?.status, 403)
  }),
  check('4-124', 'anything but auth and ping before auth ends the socket; nothing starts', async (t) => {
    const grant = await t.shared()
    const socket = t.socket(grant, '/exec/ws', { token: null })
    await socket.start({ command: 'touch never' })
    assert.deepEqual(await socket.failure(), ['UNAUTHENTICATED', 4401])
    refused(await t.dp(grant, 'GET', '/files/stat?path=never'), 404, 'FILE_NOT_FOUND')
  }),
  check('C-27', 'a fresh token of the same session renews an open socket', async (t) => {
    const grant = await t.shared()
    const socket = t.socket(grant, '/exec/ws')
    await socket.frame('auth_ok')
    const { body } = await t.session('POST', grant.session_id, '/refresh', { body: {} })
    await socket.send({ type: 'auth', token: body.token })
    await socket.until('a second auth_ok', () => socket.frames.filter(({ type }) => type === 'auth_ok').length === 2)
    socket.close()
  }),
  check('4-125', 'stdin, then its end', async (t) => {
    for (const binary of [false, true]) {
      const socket = await run(t, { command: 'cat' }, { binary })
      await socket.frame('ready')
      await socket.stdin('a\n')
      await socket.eof()
      assert.equal((await socket.frame('exit')).exit_code, 0)
      assert.equal(socket.text(), 'a\n')
    }
  }),
  check('4-127', 'TERM ends a sleep: 143', async (t) => {
    const socket = await run(t, { command: 'exec sleep 60' })
    await socket.frame('ready')
    await socket.send({ type: 'signal', signal: 'TERM' })
    const exit = await socket.frame('exit')
    assert.deepEqual([exit.exit_code, exit.signal], [143, 'SIGTERM'])
  }),
  check('4-128, C-68', 'ping is answered, before auth too', async (t) => {
    const socket = t.socket(await t.shared(), '/exec/ws', { token: null })
    await socket.send({ type: 'ping', id: 7, ts: 'then' })
    const pong = await socket.frame('pong')
    assert.deepEqual([pong.id, pong.ts], [7, 'then'])
    socket.close()
  }),
  check('4-129, C-40', 'close ends what runs, then the socket', async (t) => {
    const socket = await run(t, { command: 'cat' })
    await socket.frame('ready')
    await socket.send({ type: 'close' })
    assert.equal((await socket.closed).code, 1000)
    await socket.frame('exit')
  }),
  check('4-129, C-29', 'close on a detached run closes the socket only; the run is found again', async (t) => {
    const exec_id = crypto.randomUUID()
    const socket = await run(t, { command: 'read line; echo "got $line"', exec_id, detach: true })
    await socket.frame('ready')
    await socket.send({ type: 'close' })
    await socket.closed
    const again = await run(t, { attach: exec_id })
    assert.equal((await again.frame('ready')).attached, true)
    await again.stdin('it\n')
    await again.frame('exit')
    assert.equal(again.text(), 'got it\n')
  }),
  check('C-40', 'frames that do not fit: second start, stdin first, no JSON, unknown type', async (t) => {
    const twice = await run(t, { command: 'sleep 30' })
    await twice.start({ command: 'true' })
    assert.deepEqual(await twice.failure(), ['INVALID_REQUEST', 4400])
    const early = t.socket(await t.shared(), '/exec/ws')
    await early.stdin('x')
    assert.deepEqual(await early.failure(), ['INVALID_REQUEST', 4400])
    const garbled = t.socket(await t.shared(), '/exec/ws')
    await garbled.raw('{')
    assert.deepEqual(await garbled.failure(), ['INVALID_REQUEST', 4400])
    const unknown = t.socket(await t.shared(), '/exec/ws')
    await unknown.send({ type: 'dance' })
    await unknown.frame('error')
    await unknown.start({ command: 'true' })
    await unknown.frame('exit')
  }),
  check('3.3, C-37', 'a binary message without the subprotocol is 1003, a message of 2 MiB 1009', async (t) => {
    const binary = t.socket(await t.shared(), '/exec/ws')
    await binary.frame('auth_ok')
    await binary.raw(Buffer.of(0, 1))
    assert.equal((await binary.closed).code, 1003)
    const big = await run(t, { command: 'cat' })
    await big.frame('ready')
    await big.raw(JSON.stringify({ type: 'stdin', data: 'x'.repeat(2 * 1024 * 1024) }))
    assert.equal((await big.closed).code, 1009)
  }),
  check('4-130', 'everything written before the exit precedes it, byte for byte', async (t) => {
    const expected = Buffer.from(Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join(''))
    for (const binary of [false, true]) {
      const socket = await run(t, { command: 'seq 1 200000' }, { binary })
      const exit = await socket.frame('exit')
      assert.equal(exit.stdout_bytes, expected.length)
      assert.ok(socket.bytes().equals(expected))
    }
  }),
  check('4-131, 4-132', 'bytes that are no text, and characters across chunks, arrive whole', async (t) => {
    for (const binary of [false, true]) {
      const socket = await run(t, { command: "printf '\\377\\000'; printf x; yes '\u20ac' | head -c 200000" }, { binary })
      await socket.frame('exit')
      assert.ok(
        socket
          .bytes()
          .subarray(0, 3)
          .equals(Buffer.of(255, 0, 120)),
      )
      assert.equal(socket.bytes().length, 200_003)
    }
    const text = await run(t, { command: "printf x; yes '\u20ac' | head -c 200000", encoding: 'utf8' })
    await text.frame('exit')
    assert.equal(text.text(), `x${'\u20ac\n'.repeat(50_000)}`)
  }),
  check('C-33', 'what cannot start gives exit without ready', async (t) => {
    const socket = await run(t, { argv: ['/nonesuch'] })
    const exit = await socket.frame('exit')
    assert.deepEqual([exit.exit_code, exit.reason], [127, 'spawn_failed'])
    assert.ok(!socket.frames.some(({ type }) => type === 'ready'))
  }),
  check('3.4, C-29', 'a cut socket is taken up again at the byte where it was', async (t) => {
    const exec_id = crypto.randomUUID()
    const command = 'for i in $(seq 1 20000); do echo "line $i"; done'
    const first = await run(t, { command, exec_id })
    await first.until('some output', () => first.bytes().length > 10_000)
    first.terminate()
    await first.closed
    const got = first.bytes()
    const second = await run(t, { attach: exec_id, stdout_offset: got.length })
    await second.frame('exit')
    assert.equal(Buffer.concat([got, second.bytes()]).toString(), Array.from({ length: 20_000 }, (_, i) => `line ${i + 1}\n`).join(''))
  }),
  check('3.4', 'what the ring has lost is told as a gap; an offset ahead of it is refused', async (t) => {
    const exec_id = crypto.randomUUID()
    const first = await run(t, { command: 'head -c 5242880 /dev/zero', exec_id })
    await first.frame('exit')
    const { stdout } = (await (await run(t, { attach: exec_id })).frame('ready')) as unknown as { stdout: { offset: number; gap: unknown } }
    assert.deepEqual(stdout.gap, { from: 0, to: stdout.offset })
    assert.ok(stdout.offset >= 5_242_880 - 1_048_576)
    assert.deepEqual(await (await run(t, { attach: exec_id, stdout_offset: 9_000_000 })).failure(), ['INVALID_REQUEST', 4400])
    assert.deepEqual(await (await run(t, { attach: 'nonesuch' })).failure(), ['EXEC_NOT_FOUND', 4404])
  }),
  check('3.4', 'start with a known exec_id is attach; another command under it is a conflict', async (t) => {
    const exec_id = crypto.randomUUID()
    const start = { command: `echo run >> twice-${exec_id}; sleep 0.3; cat twice-${exec_id}`, exec_id }
    const both = await Promise.all([run(t, start), run(t, { ...start, mode: 'mirror' })])
    await Promise.all(both.map((socket) => socket.closed))
    assert.ok(both.some((socket) => socket.text() === 'run\n'))
    assert.deepEqual(await (await run(t, { command: 'true', exec_id })).failure(), ['EXEC_CONFLICT', 4409])
  }),
  check('3.4, C-37', 'takeover: the newest socket wins, the older one is told', async (t) => {
    const exec_id = crypto.randomUUID()
    const first = await run(t, { command: 'read x; echo "$x"', exec_id })
    await first.frame('ready')
    const second = await run(t, { attach: exec_id, mode: 'takeover' })
    await second.frame('ready')
    assert.deepEqual(await first.failure(), ['TAKEN_OVER', 4409])
    await second.stdin('mine\n')
    await second.frame('exit')
    assert.equal(second.text(), 'mine\n')
  }),
  check('C-66', 'exit comes although a background child holds stdout', async (t) => {
    const socket = await run(t, { command: 'sleep 20 & echo done' })
    assert.equal((await socket.frame('exit')).exit_code, 0)
    assert.equal(socket.text(), 'done\n')
  }),
  check('4-133, C-67, 4-126', 'a shell is a terminal with a size that follows', async (t) => {
    const shell = t.socket(await t.shared(), '/shell/ws')
    await shell.start({ shell: '/bin/sh', cols: 80, rows: 24 })
    const ready = await shell.frame('ready')
    assert.deepEqual([ready.cols, ready.rows, ready.size_owner], [80, 24, true])
    await shell.stdin('tty; echo "$TERM"\n')
    await shell.until('tty', () => /\/dev\/pts\/\d+/.test(shell.text()) && shell.text().includes('xterm-256color'))
    await shell.send({ type: 'resize', cols: 120, rows: 40 })
    await shell.stdin('stty size\n')
    await shell.until('the new size', () => shell.text().includes('40 120'))
    await shell.stdin('exit 5\n')
    assert.equal((await shell.frame('exit')).exit_code, 5)
    assert.equal((await shell.closed).code, 1000)
  }),
  check('3.4, 3.5', 'a shell is shared: mirror, a viewer that only reads, the owner of the size', async (t) => {
    const grant = await t.shared()
    const shell_id = crypto.randomUUID()
    const owner = t.socket(grant, '/shell/ws')
    await owner.start({ shell: '/bin/sh', shell_id, cols: 100, rows: 30 })
    await owner.frame('ready')
    const mirror = t.socket(grant, '/shell/ws')
    await mirror.start({ attach: shell_id, cols: 20, rows: 5 })
    const seen = await mirror.frame('ready')
    assert.deepEqual([seen.attached, seen.size_owner, seen.cols, seen.rows], [true, false, 100, 30])
    const viewer = t.socket(grant, '/shell/ws')
    await viewer.start({ attach: shell_id, mode: 'viewer' })
    await viewer.frame('ready')
    await viewer.stdin('echo intruder\n')
    const denied = (await viewer.frame('error')) as unknown as { error: { code: string } }
    assert.equal(denied.error.code, 'CAPABILITY_DENIED')
    await mirror.stdin('echo from-$((40 + 2)); stty size\n')
    for (const socket of [owner, mirror, viewer]) await socket.until('the output', () => /from-42[\s\S]*30 100/.test(socket.text()))
    assert.ok(!owner.text().includes('intruder'))
    await mirror.stdin('exit\n')
    for (const socket of [owner, mirror, viewer]) assert.equal((await socket.closed).code, 1000)
  }),
  check('3.5, C-29', 'a shell that everybody left is still there, with what it showed', async (t) => {
    const grant = await t.shared()
    const shell_id = crypto.randomUUID()
    const first = t.socket(grant, '/shell/ws')
    await first.start({ shell: '/bin/sh', shell_id })
    await first.stdin('keep=before; echo shown-$((1 + 1))\n')
    await first.until('output', () => first.text().includes('shown-2'))
    first.terminate()
    await first.closed
    const second = t.socket(grant, '/shell/ws')
    await second.start({ attach: shell_id })
    await second.until('the replay', () => second.text().includes('shown-2'))
    await second.stdin('echo "[$keep]"\n')
    await second.until('the same shell', () => second.text().includes('[before]'))
    await second.stdin('exit\n')
    await second.frame('exit')
  }),
]
