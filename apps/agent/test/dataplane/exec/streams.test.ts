import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { kernelBuffers } from '../../support/kernel-buffers.ts'
import { until } from '../../support/processes.ts'
import { type Encoding, TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const connect = (kind: 'exec' | 'shell' = 'exec', encoding: Encoding = 'binary', plane = dp): Promise<TestSocket> =>
  ended(new TestSocket(`${plane.wsBase}/${kind}/ws`, encoding, { token: plane.token })).opened()

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
const MiB = 1024 * 1024

describe('flow control', { tags: ['4-134', 'C-35'] }, () => {
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
    120_000,
  )

  test('stdin that the process does not read stops the client; then all of it arrives', async () => {
    const socket = await connect()
    socket.start({ command: 'mkfifo go; cat go >/dev/null; sha256sum' })
    await socket.frame('ready')
    const chunk = Buffer.alloc(MiB - 1, 'abcdefg')
    const sent = createHash('sha256')
    const chunks = kernelBuffers() / MiB + 48
    for (let i = 0; i < chunks; i++) {
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
  }, 120_000)

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
    120_000,
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
  }, 120_000)

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
  }, 120_000)

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
    expect(other.errorCode).toBe('EXEC_CONFLICT')
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
