import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
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

const anonymous = (): Promise<TestSocket> => ended(new TestSocket(`${dp.wsBase}/exec/ws`)).opened()

/** The first bytes of what the server says to raw headers. */
const upgrade = async (headers: readonly string[], path = '/exec/ws'): Promise<{ socket: Socket; text: string }> => {
  const { hostname, port, pathname } = new URL(dp.base)
  const socket = connect(Number(port), hostname).on('error', () => {})
  const handshake = [
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  ]
  socket.write([`GET ${pathname}${path} HTTP/1.1`, `Host: ${hostname}:${port}`, ...handshake, ...headers, '', ''].join('\r\n'))
  const [first] = (await once(socket, 'data')) as [Buffer]
  return { socket, text: String(first) }
}

describe('a WebSocket before it is authenticated', { tags: ['C-36', '4-135'] }, () => {
  test.each([
    ['fragments of 12 KiB', 12 * 1024],
    ['a fragment of 1 MiB', 1024 * 1024 - 1],
  ])('%s: 1009 before the message is complete', async (_name, bytes) => {
    const socket = await anonymous()
    for (let i = 0; i < 2; i++) socket.ws.send(Buffer.alloc(bytes, ' '), { fin: false, binary: false })
    expect((await socket.closed).code).toBe(1009)
  })

  test('after its auth frame it may send large messages', async () => {
    const socket = await anonymous()
    socket.send({ type: 'auth', token: dp.token })
    await socket.frame('auth_ok')
    socket.start({ command: 'wc -c', stdin: 'open' })
    await socket.frame('ready')
    socket.stdin('x'.repeat(500_000))
    socket.eof()
    expect((await socket.closed).code).toBe(1000)
    expect(socket.text().trim()).toBe('500000')
  })

  test('a client that never authenticates and never answers the goodbye is cut', async () => {
    const { socket, text } = await upgrade([])
    expect(text).toMatch(/^HTTP\/1.1 101/)
    // `ws` alone would wait 30 s more; that is the guard of this test, too.
    socket.resume()
    await once(socket, 'close')
  })
})

describe('refused before the upgrade', { tags: ['C-38', '4-57'] }, () => {
  test('without a credential an unknown id is 404', async () => {
    const unknown = dp.wsBase.replace(/[^/]+\/v1$/, 'unknown_0123456789abcdef/v1')
    expect(unknown).not.toBe(dp.wsBase)
    const { status, body } = await new TestSocket(`${unknown}/exec/ws`).refused()
    expect([status, body.error.code]).toEqual([404, 'NOT_FOUND'])
  })

  test('a token in the query and no other credential is 401; beside one it is nothing', async () => {
    const { status, body } = await new TestSocket(`${dp.wsBase}/exec/ws?token=${dp.token}`).refused()
    expect([status, body.error.code]).toEqual([401, 'UNAUTHENTICATED'])
    const both = ended(new TestSocket(`${dp.wsBase}/exec/ws?token=x`, 'json', { token: dp.token }))
    await both.frame('auth_ok')
  })

  test.each(['Host: other.example', 'Authorization: Bearer x', 'X-Api-Key: x'])('a second header %j is 400', async (second) => {
    const name = second.split(':')[0] as string
    const first = name === 'Host' ? [] : [`${name}: ${name === 'Authorization' ? `Bearer ${dp.token}` : dp.token}`]
    const { socket, text } = await upgrade([...first, second])
    expect(text).toMatch(/^HTTP\/1.1 400/)
    socket.destroy()
  })
})
