import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const connect = (kind: 'exec' | 'shell' = 'exec'): Promise<TestSocket> =>
  ended(new TestSocket(`${dp.wsBase}/${kind}/ws`, 'binary', { token: dp.token })).opened()

describe('attach modes', () => {
  test('takeover: the newest wins, the other is told so with 4409', async () => {
    const first = await connect()
    first.start({ command: 'cat', exec_id: 'taken' })
    await first.frame('ready')
    const second = await connect()
    second.start({ attach: 'taken' })
    expect((await first.closed).code).toBe(4409)
    expect(first.errorCode).toBe('TAKEN_OVER')
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
    expect(viewer.errorCode).toBe('CAPABILITY_DENIED')
    expect(second.find('exit')).toBeUndefined()
    first.stdin('end\n')
    for (const socket of [first, second, viewer]) expect((await socket.closed).code).toBe(1000)
  })

  test('exec attaches to no shell', { tags: ['C-56'] }, async () => {
    const shell = await connect('shell')
    shell.start({ shell_id: 'private' })
    await shell.frame('ready')
    const exec = await connect()
    exec.start({ attach: 'private' })
    expect((await exec.closed).code).toBe(4404)
  })
})

describe('size of a shell', { tags: ['4-133'] }, () => {
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
  }, 120_000)

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
  }, 120_000)
})
