import { once } from 'node:events'
import { connect as dial } from 'node:net'
import { SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { LineClient } from '../../support/line-client.ts'
import { until } from '../../support/processes.ts'
import { TestSocket } from '../../support/socket.ts'

/** What the contract gives half a minute and more. All at once, because each only waits. */
let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

/** An `exp` that leaves a busy machine time for the first frames, in seconds. */
const soon = (): number => Math.floor(Date.now() / 1000) + 10

const connect = (encoding: 'json' | 'binary' = 'json', token = dp.token): Promise<TestSocket> =>
  new TestSocket(`${dp.wsBase}/exec/ws`, encoding, { token }).opened()

describe.concurrent('times of the contract', () => {
  test('at exp + 30 s without a renewal: TOKEN_EXPIRED, 4401, then a disconnect that can be healed', {
    tags: ['C-27'],
    timeout: 120_000,
  }, async ({ expect }) => {
    const exp = soon()
    const socket = await connect('json', await dp.sign({ exp }))
    socket.start({ argv: ['sleep', '300'], exec_id: 'expires' })
    await socket.frame('ready')
    const { code } = await socket.closed
    expect([code, socket.errorCode]).toEqual([4401, 'TOKEN_EXPIRED'])
    expect(Date.now() / 1000 - exp).toBeGreaterThanOrEqual(30)
    const again = await connect()
    again.start({ attach: 'expires' })
    expect(await again.frame('ready')).toMatchObject({ attached: true })
    again.send({ type: 'signal', signal: 'KILL' })
    await again.closed
  })

  test('an exec without a reader is killed after 30 s, not after 20', { tags: ['C-29'], timeout: 120_000 }, async ({ expect }) => {
    const first = await connect()
    first.start({ argv: ['sleep', '300'], exec_id: 'alone' })
    await first.frame('ready')
    first.ws.terminate()
    await first.closed
    await new Promise((resolve) => setTimeout(resolve, 20_000))
    const second = await connect()
    second.start({ attach: 'alone' })
    expect(await second.frame('ready')).toMatchObject({ attached: true })
    second.ws.terminate()
    await new Promise((resolve) => setTimeout(resolve, 33_000))
    const third = await connect()
    third.start({ attach: 'alone' })
    expect(await third.frame('exit')).toMatchObject({ reason: 'killed', kill_cause: 'disconnect' })
  })

  test('a peer that answers no ping is gone within 90 s and no longer counts', { tags: ['C-68', 'C-51'], timeout: 150_000 }, async ({
    expect,
  }) => {
    const socket = new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token, autoPong: false })
    await socket.opened()
    const started = performance.now()
    expect((await socket.closed).code).toBe(1006)
    // The beat that finds it is due at 90 s; before the next one it must be gone, however late the machine is.
    expect(performance.now() - started).toBeLessThan(115_000)
  })

  test('a reader that stands still for 120 s: 4408', { tags: ['4-134'], timeout: 150_000 }, async ({ expect }) => {
    const socket = await connect('binary')
    socket.start({ argv: ['yes'], exec_id: 'stalls' })
    await socket.frame('ready')
    await once(socket.ws, 'message')
    socket.ws.pause()
    await new Promise((resolve) => setTimeout(resolve, 123_000))
    socket.ws.resume()
    expect((await socket.closed).code).toBe(4408)
    expect(socket.errorCode).toBe('TIMEOUT')
  })

  test('a client that takes no byte of a large answer for 30 s is cut, and its share of the budget is free', {
    tags: ['4-134', 'C-63'],
    timeout: 150_000,
  }, async ({ expect }) => {
    const { hostname, port, pathname } = new URL(`${dp.base}/exec`)
    const client = dial(Number(port), hostname).on('error', () => {})
    const body = JSON.stringify({ command: 'head -c 16777216 /dev/zero; head -c 16777216 /dev/zero >&2', max_output_bytes: 16_777_216 })
    const head = [`POST ${pathname} HTTP/1.1`, `Host: ${hostname}:${port}`, `Authorization: Bearer ${dp.token}`]
    client.write([...head, 'Content-Type: application/json', `Content-Length: ${body.length}`, '', body].join('\r\n'))
    const [first] = (await once(client, 'data')) as [Buffer]
    client.pause()
    expect(String(first)).toMatch(/^HTTP\/1.1 200/)
    expect(dp.answers.held).toBeGreaterThan(0)
    await until('the client is cut', () => dp.answers.held === 0, 130_000)
    client.resume()
    await new Promise((resolve) => client.on('close', resolve))
  })
})

describe.concurrent('a socket and the end of its token', { tags: ['C-27'] }, () => {
  test('work that starts needs a token in date', async ({ expect }) => {
    const exp = soon()
    const socket = await connect('binary', await dp.sign({ exp }))
    await socket.frame('auth_ok')
    await new Promise((resolve) => setTimeout(resolve, (exp + 6) * 1000 - Date.now()))
    socket.start({ command: 'true' })
    expect((await socket.closed).code).toBe(4401)
    expect(socket.errorCode).toBe('TOKEN_EXPIRED')
  }, 120_000)

  test('an HTTP exec is authorised at its start', async ({ expect }) => {
    // It ends when its token is no longer good, whenever it began.
    const response = await dp.post('/exec', { command: 'sleep 17; echo done' }, { token: await dp.sign({ exp: soon() }) })
    expect([response.status, ((await response.json()) as { stdout: string }).stdout]).toEqual([200, 'done\n'])
  }, 120_000)

  test('outlives three tokens; without another one it is closed 30 s after `exp`, and its process can be attached to', async ({
    expect,
  }) => {
    const short = () => dp.sign({ exp: soon() })
    const [renewed, idle, left] = await Promise.all([
      connect('binary', await short()),
      connect('binary', await short()),
      connect('binary', await short()),
    ])
    renewed.start({ command: 'cat', exec_id: 'renewed' })
    left.start({ command: 'cat', exec_id: 'left' })
    await Promise.all([renewed.frame('ready'), left.frame('ready')])
    for (let tokens = 2; tokens <= 4; tokens++) {
      renewed.send({ type: 'auth', token: await dp.sign({ exp: tokens === 4 ? soon() + 600 : soon() }) })
      await renewed.until(() => renewed.frames.filter(({ type }) => type === 'auth_ok').length === tokens)
    }
    const started = performance.now()
    for (const socket of [idle, left]) {
      expect((await socket.closed).code).toBe(4401)
      expect(socket.errorCode).toBe('TOKEN_EXPIRED')
    }
    expect(performance.now() - started).toBeGreaterThan(20_000)
    expect(left.find('exit')).toBeUndefined()
    const again = await connect('binary')
    again.start({ attach: 'left' })
    await again.frame('ready')
    for (const socket of [renewed, again]) {
      socket.stdin('still here')
      socket.eof()
      expect((await socket.closed).code).toBe(1000)
      expect(socket.text()).toBe('still here')
    }
  }, 120_000)
})

describe.concurrent('the socket of a managed process', () => {
  test('outlives its token by 30 s, and any time when that is renewed in a control frame, by the same actor', {
    tags: ['C-27'],
    timeout: 180_000,
  }, async ({ expect }) => {
    for (const id of ['expires', 'renews']) await dp.post('/processes', { process_id: id, command: '/bin/cat' })
    const token = await dp.sign({ exp: soon() })
    const expiring = await LineClient.open(dp, 'expires', { token })
    const renewing = await LineClient.open(dp, 'renews', { token, protocols: [SUBPROTOCOL_LINES] })
    renewing.control({ type: 'auth', token: await dp.sign({}) })
    await renewing.until(() => renewing.frames.some(({ type }) => type === 'auth_ok'))
    expect(await expiring.closed).toEqual({ code: 4401, reason: 'TOKEN_EXPIRED' })
    renewing.send('still here')
    expect(await renewing.got(1)).toEqual(['still here'])
    renewing.control({ type: 'auth', token: await dp.sign({ sub: 'somebody else' }) })
    expect(await renewing.closed).toMatchObject({ code: 4401 })
  })
})
