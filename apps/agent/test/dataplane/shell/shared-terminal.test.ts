import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { kernelBuffers } from '../../support/kernel-buffers.ts'
import { until } from '../../support/processes.ts'
import { TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const connect = (): Promise<TestSocket> => ended(new TestSocket(`${dp.wsBase}/shell/ws`, 'binary', { token: dp.token })).opened()

const attach = async (id: string, fields: Record<string, unknown> = {}): Promise<TestSocket> => {
  const socket = await connect()
  socket.start({ attach: id, ...fields })
  await socket.frame('ready')
  return socket
}

const MiB = 1024 * 1024
const KERNEL = kernelBuffers()

describe('readers of one terminal', { tags: ['3.5'] }, () => {
  /** Writes when it is told to, without an end. */
  const flood = async (id: string): Promise<TestSocket> => {
    const socket = await connect()
    socket.start({ argv: ['sh', '-c', 'stty raw -echo; echo up; read go; exec seq 1 100000000'], shell_id: id })
    await socket.until(() => socket.text() === 'up\n')
    return socket
  }
  const expected = (bytes: number): Buffer => {
    let text = 'up\n'
    for (let i = 1; text.length < bytes; i++) text += `${i}\n`
    return Buffer.from(text).subarray(0, bytes)
  }
  const size = (socket: TestSocket): number => socket.output.stdout.reduce((sum, { length }) => sum + length, 0)

  test('are paced by the fastest; one that falls behind is closed 4408 after what it was sent, and may come back by offset', async () => {
    const fast = await flood('paced')
    const slow = await attach('paced')
    slow.ws.pause()
    fast.stdin('\n')
    await fast.until(() => size(fast) > KERNEL + 30 * MiB, 90_000)
    slow.ws.resume()
    expect((await slow.closed).code).toBe(4408)
    expect(slow.find('error')?.error).toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('offset') })
    const behind = slow.bytes()
    expect(behind.length).toBeLessThan(KERNEL + 30 * MiB)
    expect(behind.equals(expected(behind.length))).toBe(true)
    const again = await attach('paced', { stdout_offset: behind.length })
    expect(again.find('ready')?.stdout.gap).toMatchObject({ from: behind.length })
    fast.send({ type: 'signal', signal: 'KILL' })
    await fast.closed
    expect(fast.bytes().equals(expected(size(fast)))).toBe(true)
  }, 120_000)

  test('one alone holds the process to its own speed, and loses nothing', async () => {
    const only = await flood('held')
    only.ws.pause()
    only.stdin('\n')
    const written = async (): Promise<number> => Number((await dp.fetch('/execs/held/output')).headers.get('X-Stream-Next-Offset'))
    let last = -1
    await until('the process stands still', async () => {
      const before = last
      last = await written()
      await new Promise((resolve) => setTimeout(resolve, 100))
      return last > 0 && last === before
    })
    expect(last).toBeLessThan(KERNEL + 16 * MiB)
    only.ws.resume()
    await only.until(() => size(only) > KERNEL + 20 * MiB, 90_000)
    only.send({ type: 'signal', signal: 'KILL' })
    await only.closed
    expect(only.bytes().equals(expected(size(only)))).toBe(true)
  }, 120_000)

  test('takeover: the newest is alone, and the others are told so with 4409', async () => {
    const first = await connect()
    first.start({ argv: ['sh', '-c', 'stty -echo; echo up; read x; echo got $x'], shell_id: 'taken', cols: 80, rows: 24 })
    await first.until(() => first.text().includes('up'))
    const viewer = await attach('taken', { mode: 'viewer' })
    const taker = await attach('taken', { mode: 'takeover', cols: 70, rows: 20 })
    expect(taker.find('ready')).toMatchObject({ size_owner: true })
    for (const socket of [first, viewer]) {
      expect((await socket.closed).code).toBe(4409)
      expect(socket.errorCode).toBe('TAKEN_OVER')
      expect(socket.find('exit')).toBeUndefined()
    }
    taker.stdin('it\n')
    expect((await taker.closed).code).toBe(1000)
    expect(taker.text()).toContain('got it')
  })
})

describe('the size of a shared terminal', { tags: ['3.5'] }, () => {
  /** Says its size at the start and whenever it is told of a new one. */
  const SIZES = [
    process.execPath,
    '-e',
    'const { stdout } = process; const say = () => console.log("<" + stdout.getWindowSize().join("x") + ">"); process.on("SIGWINCH", say); say(); process.stdin.resume()',
  ]
  const begin = async (id: string, fields: Record<string, unknown> = { cols: 80, rows: 24 }): Promise<TestSocket> => {
    const socket = await connect()
    socket.start({ argv: SIZES, shell_id: id, ...fields })
    return socket
  }
  /** The last size that the program has said. */
  const said = (socket: TestSocket): string | undefined =>
    socket
      .text()
      .match(/<\d+x\d+>/g)
      ?.at(-1)
  const ends = async (socket: TestSocket): Promise<void> => {
    socket.send({ type: 'close' })
    await socket.closed
  }

  test('is what was asked for before the shell was ready', async () => {
    const socket = await begin('early')
    socket.send({ type: 'resize', cols: 101, rows: 31 })
    await socket.until(() => said(socket) === '<101x31>')
    await ends(socket)
  })

  test('passes to the longest attached one that is no viewer, which a viewer cannot claim', async () => {
    const first = await begin('passes')
    await first.until(() => said(first) === '<80x24>')
    const viewer = await attach('passes', { mode: 'viewer', cols: 10, rows: 5 })
    const second = await attach('passes', { cols: 60, rows: 15 })
    const third = await attach('passes', { cols: 50, rows: 10 })
    for (const socket of [viewer, second, third]) expect(socket.find('ready')).toMatchObject({ size_owner: false, cols: 80, rows: 24 })
    viewer.send({ type: 'resize', cols: 11, rows: 6, claim: true })
    expect((await viewer.frame('error')).error.code).toBe('CAPABILITY_DENIED')
    third.send({ type: 'resize', cols: 51, rows: 11, claim: true })
    await first.until(() => said(first) === '<51x11>')
    third.ws.terminate()
    await second.until(() => said(second) === '<80x24>')
    first.ws.terminate()
    await second.until(() => said(second) === '<60x15>')
    expect(viewer.text()).not.toMatch(/<1[01]x/)
    await ends(second)
  })

  test('stays where the next in line has said none', async () => {
    const first = await begin('stays')
    await first.until(() => said(first) === '<80x24>')
    const second = await attach('stays')
    first.send({ type: 'resize', cols: 90, rows: 30 })
    await second.until(() => said(second) === '<90x30>')
    first.ws.terminate()
    await until('the first has gone', () => dp.sandbox.activity.attached === 1)
    second.send({ type: 'ping', id: 'after' })
    await second.frame('pong')
    expect((await attach('stays')).find('ready')).toMatchObject({ cols: 90, rows: 30 })
    await ends(second)
  })

  test('is set again for one who comes late and lacks what is on the screen, a viewer too; it is the same afterwards', async () => {
    const first = await begin('late')
    await first.until(() => said(first) === '<80x24>')
    for (const mode of ['mirror', 'viewer']) {
      const late = await attach('late', { stdout_offset: 'end', mode, cols: 40, rows: 12 })
      await late.until(() => late.text().endsWith('<80x23>\r\n<80x24>\r\n'))
      expect(late.find('ready')).toMatchObject({ cols: 80, rows: 24 })
      late.ws.terminate()
    }
    const whole = await attach('late')
    await whole.until(() => said(whole) === '<80x24>')
    const told = first.text()
    await ends(whole)
    await first.closed
    expect(first.text()).toBe(told)
  })

  test('is not left one row off by a client that goes while it is set again', async () => {
    const first = await begin('gone')
    await first.until(() => said(first) === '<80x24>')
    first.ws.terminate()
    await first.closed
    const again = await attach('gone')
    again.ws.terminate()
    await again.closed
    const last = await attach('gone', { mode: 'viewer' })
    await until('it has its size', async () => {
      const out = await (await dp.fetch('/execs/gone/output')).text()
      return out.endsWith('<80x24>\r\n') && out.length > '<80x24>\r\n'.length
    })
    expect(last.find('ready')).toMatchObject({ rows: 24 })
    const killer = await attach('gone')
    await ends(killer)
  })
})
