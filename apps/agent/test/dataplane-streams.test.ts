import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
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

const connect = async (kind: 'exec' | 'shell' = 'exec', encoding: Encoding = 'binary', plane = dp): Promise<TestSocket> => {
  const socket = new TestSocket(`${plane.wsBase}/${kind}/ws`, encoding, { token: plane.token })
  open.push(socket)
  return socket.opened()
}

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
const MiB = 1024 * 1024

describe('[4-134, C-35] flow control', () => {
  test.each(['binary', 'json'] as const)(
    '%s: `yes` that nobody reads stops; memory is flat; every byte comes afterwards',
    async (encoding) => {
      const socket = await connect('exec', encoding)
      socket.start({ command: 'yes | head -c 64000000' })
      await socket.frame('ready')
      await socket.until(() => socket.bytes().length > 0)
      socket.ws.pause()
      const before = process.memoryUsage()
      await new Promise((resolve) => setTimeout(resolve, 1500))
      const after = process.memoryUsage()
      expect(after.arrayBuffers + after.external - before.arrayBuffers - before.external).toBeLessThan(16 * MiB)
      socket.ws.resume()
      await socket.closed
      const bytes = socket.bytes()
      expect(bytes.length).toBe(64_000_000)
      expect(bytes.equals(Buffer.alloc(64_000_000, 'y\n'))).toBe(true)
      expect(socket.find('exit')).toMatchObject({ exit_code: 0, stdout_bytes: 64_000_000 })
    },
    60_000,
  )

  test('stdin that the process does not read stops the client; then all of it arrives', async () => {
    const socket = await connect()
    socket.start({ command: 'mkfifo go; cat go >/dev/null; sha256sum' })
    await socket.frame('ready')
    const chunk = Buffer.alloc(MiB - 1, 'abcdefg')
    const sent = createHash('sha256')
    for (let i = 0; i < 40; i++) {
      sent.update(chunk)
      socket.stdin(chunk)
    }
    socket.eof()
    const before = process.memoryUsage().arrayBuffers
    let last = -1
    await until('the socket is no longer read', async () => {
      const { writableLength } = socket.socket
      const still = writableLength === last && writableLength > 0
      last = writableLength
      return still
    })
    expect(socket.socket.writableLength).toBeGreaterThan(20 * MiB)
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * MiB)
    await dp.exec({ command: 'echo > go' })
    await socket.closed
    expect(socket.text()).toContain(sent.digest('hex'))
  }, 30_000)

  test.each([false, true])(
    '100 MB through cat, acknowledged mode %s: no deadlock, every byte',
    async (ack) => {
      const socket = await connect()
      socket.start({ argv: ['cat'], ack })
      await socket.frame('ready')
      const total = 100_000_000
      const chunk = Buffer.alloc(MiB - 1, 'abcdefg')
      let received = 0
      const hash = createHash('sha256')
      socket.ws.on('message', (data: Buffer, isBinary) => {
        if (!isBinary) return
        received += data.length - 1
        hash.update(data.subarray(1))
        socket.output.stdout.length = 0
        if (ack) socket.send({ type: 'ping', stdout_offset: received, stderr_offset: 0 })
      })
      const sent = createHash('sha256')
      let left = total
      await new Promise<void>((resolve) => {
        const next = (): void => {
          if (left === 0) return resolve()
          const piece = chunk.subarray(0, Math.min(left, chunk.length))
          left -= piece.length
          sent.update(piece)
          socket.ws.send(Buffer.concat([Buffer.of(0), piece]), () => next())
        }
        next()
      })
      socket.eof()
      expect((await socket.closed).code).toBe(1000)
      expect(received).toBe(total)
      expect(hash.digest('hex')).toBe(sent.digest('hex'))
    },
    60_000,
  )

  test('[acknowledged mode] at most 768 KiB and what one read brings are ahead of the client', async () => {
    const socket = await connect()
    socket.start({ argv: ['yes'], ack: true })
    await socket.until(() => socket.bytes().length >= 700_000)
    await new Promise((resolve) => setTimeout(resolve, 300))
    const ahead = socket.bytes().length
    expect(ahead).toBeLessThan(MiB)
    socket.send({ type: 'ping', id: 1, stdout_offset: ahead, stderr_offset: 0 })
    expect(await socket.frame('pong')).toMatchObject({ id: 1, stdin_offset: 0 })
    await socket.until(() => socket.bytes().length > ahead)
    socket.send({ type: 'signal', signal: 'KILL' })
    await socket.until(() => {
      socket.send({ type: 'ping', stdout_offset: socket.bytes().length })
      return socket.find('exit') !== undefined
    })
  })
})

describe('replay', () => {
  test('sockets that drop at random places: the pieces make the whole, byte for byte', async () => {
    const command = 'head -c 30000000 /dev/urandom | tee produced'
    const pieces: Buffer[] = []
    let offset = 0
    for (let drops = 0; ; drops++) {
      const socket = await connect()
      if (drops === 0) socket.start({ command, exec_id: 'dropped', ack: true })
      else socket.start({ attach: 'dropped', stdout_offset: offset, stderr_offset: 0, ack: true })
      const ready = await socket.frame('ready')
      expect(ready.stdout).toMatchObject({ offset })
      expect(ready.stdout.gap).toBeUndefined()
      const limit = drops < 20 ? offset + 100_000 + Math.random() * 1_500_000 : Number.POSITIVE_INFINITY
      let received = 0
      const finished = await new Promise<boolean>((resolve) => {
        const look = (): void => {
          received = socket.output.stdout.reduce((sum, { length }) => sum + length, 0)
          socket.send({ type: 'ping', stdout_offset: offset + received })
          if (offset + received >= limit) {
            socket.ws.terminate()
            resolve(false)
          }
        }
        socket.ws.on('message', look)
        void socket.closed.then(({ code }) => resolve(code === 1000))
        look()
      })
      const bytes = socket.bytes()
      pieces.push(bytes)
      offset += bytes.length
      if (finished) {
        expect(drops).toBeGreaterThan(5)
        expect(socket.find('exit')).toMatchObject({ exit_code: 0, stdout_bytes: 30_000_000 })
        break
      }
    }
    const whole = Buffer.concat(pieces)
    expect(whole.length).toBe(30_000_000)
    expect(sha256(whole)).toBe(sha256(await readFile(join(dp.sandbox.workspacePath, 'produced'))))
  }, 60_000)

  test('an agent restart in mid-stream loses and repeats nothing', async () => {
    const own = await TestDataplane.start()
    try {
      const first = await connect('exec', 'binary', own)
      first.start({ command: 'for i in $(seq 1 200); do seq 1 2000; done | tee produced', exec_id: 'survives', ack: true })
      await first.until(() => first.bytes().length > 300_000)
      const link = own.sandbox.relink()
      first.ws.terminate()
      await link
      const before = first.bytes()
      const second = await connect('exec', 'binary', own)
      second.start({ attach: 'survives', stdout_offset: before.length })
      await second.closed
      expect(second.find('ready')?.stdout.offset).toBe(before.length)
      expect(Buffer.concat([before, second.bytes()]).equals(await readFile(join(own.sandbox.workspacePath, 'produced')))).toBe(true)
      expect(second.find('exit')).toMatchObject({ exit_code: 0 })
    } finally {
      await own[Symbol.asyncDispose]()
    }
  }, 20_000)

  test('a start again under the same id attaches; one run', async () => {
    const first = await connect()
    const start = { command: 'echo once >> runs; echo out; read x; echo got $x', exec_id: 'again' }
    first.start(start)
    first.ws.terminate()
    const second = await connect()
    second.start(start)
    await second.until(() => second.text().includes('out'))
    second.stdin('it\n')
    await second.closed
    expect(second.text()).toBe('out\ngot it\n')
    expect(await readFile(join(dp.sandbox.workspacePath, 'runs'), 'utf8')).toBe('once\n')
    const other = await connect()
    other.start({ command: 'true', exec_id: 'again' })
    expect((await other.closed).code).toBe(4409)
    expect(other.find('error')?.error.code).toBe('EXEC_CONFLICT')
  })

  test('an ended exec gives ready, the ring, exit; an old offset a gap; a future one 4400; an unknown id 4404', async () => {
    await dp.exec({ command: 'yes | head -c 5242880', exec_id: 'five' })
    const socket = await connect()
    socket.start({ attach: 'five' })
    expect((await socket.closed).code).toBe(1000)
    const ready = socket.find('ready')
    expect(ready).toMatchObject({
      attached: true,
      stdout: { offset: 4 * MiB, oldest: 4 * MiB, gap: { from: 0, to: 4 * MiB } },
      stderr: { offset: 0 },
    })
    expect(socket.bytes().length).toBe(MiB)
    expect(socket.find('exit')).toMatchObject({ exit_code: 0, stdout_bytes: 5 * MiB })

    for (const [start, code] of [
      [{ attach: 'five', stdout_offset: 6 * MiB }, 4400],
      [{ attach: 'unknown' }, 4404],
    ] as const) {
      const refused = await connect()
      refused.start(start)
      expect((await refused.closed).code).toBe(code)
    }
    const live = await connect()
    live.start({ attach: 'five', stdout_offset: 'end', stderr_offset: 'end' })
    await live.closed
    expect(live.bytes().length).toBe(0)
    expect(live.find('ready')?.stdout.gap).toBeUndefined()
  })

  test('what HTTP polls by offset is what the socket got', async () => {
    const socket = await connect()
    socket.start({ command: 'seq 1 5000', exec_id: 'polled' })
    await socket.closed
    expect(Buffer.from(await (await dp.fetch('/execs/polled/output?offset=0')).arrayBuffer()).equals(socket.bytes())).toBe(true)
  })
})

describe('attach modes', () => {
  test('takeover: the newest wins, the other is told so with 4409', async () => {
    const first = await connect()
    first.start({ command: 'cat', exec_id: 'taken' })
    await first.frame('ready')
    const second = await connect()
    second.start({ attach: 'taken' })
    expect((await first.closed).code).toBe(4409)
    expect(first.find('error')?.error.code).toBe('TAKEN_OVER')
    second.stdin('mine')
    second.eof()
    await second.closed
    expect(second.text()).toBe('mine')
  })

  test('mirror: all read and write a shell; a viewer only reads', async () => {
    const first = await connect('shell')
    first.start({ argv: ['sh', '-c', 'stty -echo; read a; echo 1$a; read b; echo 2$b; read c'], shell_id: 'shared', cols: 90, rows: 20 })
    expect(await first.frame('ready')).toMatchObject({ shell_id: 'shared', size_owner: true })
    const second = await connect('shell')
    second.start({ attach: 'shared', cols: 50, rows: 10 })
    expect(await second.frame('ready')).toMatchObject({ attached: true, size_owner: false, cols: 90, rows: 20 })
    const viewer = await connect('shell')
    viewer.start({ attach: 'shared', mode: 'viewer' })
    await viewer.frame('ready')
    first.stdin('x\n')
    await second.until(() => second.text().includes('1x'))
    second.stdin('y\n')
    for (const socket of [first, viewer]) await socket.until(() => socket.text().includes('2y'))
    for (const frame of [
      { type: 'stdin', data: 'z\n' },
      { type: 'resize', cols: 1, rows: 1 },
      { type: 'signal', signal: 'KILL' },
    ])
      viewer.send(frame)
    await viewer.until(() => viewer.frames.filter(({ type }) => type === 'error').length === 3)
    expect(viewer.find('error')?.error.code).toBe('CAPABILITY_DENIED')
    expect(second.find('exit')).toBeUndefined()
    first.stdin('end\n')
    for (const socket of [first, second, viewer]) expect((await socket.closed).code).toBe(1000)
  })

  test('[C-56] exec attaches to no shell', async () => {
    const shell = await connect('shell')
    shell.start({ shell_id: 'private' })
    await shell.frame('ready')
    const exec = await connect()
    exec.start({ attach: 'private' })
    expect((await exec.closed).code).toBe(4404)
  })
})

describe('[4-133] size of a shell', () => {
  /** Says its size whenever it is told of a new one. */
  const SIZES = [
    process.execPath,
    '-e',
    'const { stdout } = process; process.on("SIGWINCH", () => console.log(stdout.getWindowSize().reverse().join(" "))); console.log("up"); process.stdin.resume()',
  ]

  test('others change nothing, a claim does, and the next in line owns it when the owner goes', async () => {
    const first = await connect('shell')
    first.start({ argv: SIZES, shell_id: 'sizes', cols: 80, rows: 24 })
    await first.until(() => first.text().includes('up'))
    const second = await connect('shell')
    second.start({ attach: 'sizes', cols: 60, rows: 15 })
    await second.frame('ready')
    second.send({ type: 'resize', cols: 61, rows: 16 })
    first.send({ type: 'resize', cols: 100, rows: 30 })
    await first.until(() => first.text().includes('30 100'))
    expect(first.text()).not.toContain('16 61')
    second.send({ type: 'resize', cols: 62, rows: 17, claim: true })
    await first.until(() => first.text().includes('17 62'))
    second.ws.terminate()
    await first.until(() => first.text().endsWith('30 100\r\n'))
    first.send({ type: 'close' })
    await first.closed
  }, 10_000)

  test('a reattach applies the size after the replay, also the same one', async () => {
    const first = await connect('shell')
    first.start({ argv: SIZES, shell_id: 'redraw', cols: 80, rows: 24 })
    await first.until(() => first.text().includes('up'))
    first.ws.terminate()
    await first.closed
    const again = await connect('shell')
    again.start({ attach: 'redraw', cols: 80, rows: 24 })
    await again.until(() => again.text().includes('24 80'))
    expect(again.text().startsWith('up')).toBe(true)
    again.ws.terminate()
    await again.closed
    const larger = await connect('shell')
    larger.start({ attach: 'redraw', stdout_offset: 'end', cols: 90, rows: 40 })
    await larger.until(() => larger.text().includes('40 90'))
    larger.send({ type: 'close' })
    await larger.closed
  }, 10_000)
})
