import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { until } from '../../support/processes.ts'
import { TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

/** A socket with its token in the header. */
const connect = (): Promise<TestSocket> => ended(new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token })).opened()

/** A socket with a process that runs, and one with none. */
const busyAndIdle = async (own: TestDataplane): Promise<[busy: TestSocket, idle: TestSocket]> => {
  const open = () => new TestSocket(`${own.wsBase}/exec/ws`, 'json', { token: own.token }).opened()
  const [busy, idle] = await Promise.all([open(), open()])
  busy.start({ argv: ['sleep', '60'] })
  await Promise.all([busy.frame('ready'), idle.frame('auth_ok')])
  return [busy, idle]
}

describe('ends', () => {
  test('a renewal keeps the socket, one of another actor does not', { tags: ['C-27'] }, async () => {
    const socket = await connect()
    await socket.frame('auth_ok')
    socket.send({ type: 'auth', token: await dp.sign({ exp: Math.floor(Date.now() / 1000) + 900 }) })
    await socket.until(() => socket.frames.filter(({ type }) => type === 'auth_ok').length === 2)
    socket.send({ type: 'auth', token: await dp.sign({ sub: 'agent' }) })
    expect((await socket.closed).code).toBe(4401)
    expect(socket.errorCode).toBe('UNAUTHENTICATED')
  })

  test('a released session: the process dies, its exit is told, then error and 4410; an idle socket closes at once', {
    tags: ['C-28', 'C-30'],
  }, async () => {
    const own = await TestDataplane.start()
    try {
      const [busy, idle] = await busyAndIdle(own)
      const started = performance.now()
      own.revocations.apply({
        sessions: [{ session_id: own.sandbox.sessionId, reason: 'released', until: Date.now() / 1000 + 600 }],
        tokens: [],
      })
      expect([(await busy.closed).code, (await idle.closed).code]).toEqual([4410, 4410])
      expect(performance.now() - started).toBeLessThan(30_000)
      expect(busy.find('exit')).toMatchObject({ reason: 'killed', kill_cause: 'released' })
      expect(busy.frames.map(({ type }) => type).slice(-2)).toEqual(['exit', 'error'])
      expect(idle.errorCode).toBe('SESSION_RELEASED')
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })

  test('a renewal that grants less ends what needs more: 4403', { tags: ['C-28'] }, async () => {
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
      const [busy, idle] = await busyAndIdle(own)
      await own.sandbox.kill()
      own.sandbox.end({ lost: true, reason: 'died' })
      expect([(await busy.closed).code, (await idle.closed).code]).toEqual([4503, 4503])
      expect([busy.errorCode, idle.errorCode]).toEqual(['SANDBOX_LOST', 'SANDBOX_LOST'])
      expect(busy.find('exit')).toBeUndefined()
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })

  test('the agent goes down: 1001, and the process lives', { tags: ['C-37'] }, async () => {
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
