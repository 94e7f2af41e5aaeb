import { ErrorEnvelope } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createDataplaneLimits, type DataplaneRates } from '../../../src/http/dataplane-limits.ts'
import { TestDataplane } from '../../support/dataplane.ts'
import { TestSocket } from '../../support/socket.ts'
import { createTestIssuer } from '../../support/tokens.ts'

/** So slow that nothing comes back during a test. */
const TWICE = { perSecond: 0.001, burst: 2 }
const THRICE = { perSecond: 0.001, burst: 3 }

let dp: TestDataplane
const start = async (rates: DataplaneRates): Promise<void> => {
  dp = await TestDataplane.start({ rates })
}
afterEach(() => dp[Symbol.asyncDispose]())

const socketOf = (token?: string): TestSocket => new TestSocket(`${dp.wsBase}/exec/ws`, 'json', token === undefined ? {} : { token })

/** An exec on a socket of its own: how it was closed, and its error if it had one. */
const run = async (start: Record<string, unknown>, token = dp.token): Promise<[number, string | undefined]> => {
  const socket = socketOf(token)
  await socket.frame('auth_ok')
  socket.start(start)
  return [(await socket.closed).code, socket.errorCode]
}

const expectRefused = async (response: Response, limit: string): Promise<void> => {
  expect(response.status).toBe(429)
  expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0)
  const { error } = ErrorEnvelope.parse(await response.json())
  expect(error).toMatchObject({ code: 'RATE_LIMITED', retryable: true, details: { limit }, message: expect.stringContaining(limit) })
}

describe('exec', { tags: ['C-58'] }, () => {
  beforeEach(() => start({ execPerPrincipal: TWICE, execPerTenant: THRICE }))

  test('counts starts over HTTP, the alias and sockets together, by actor and by tenant', async () => {
    expect((await dp.post('/exec', { command: 'true', exec_id: 'first' })).status).toBe(200)
    expect(await run({ command: 'true' })).toEqual([1000, undefined])
    await expectRefused(await dp.post('/exec', { command: 'true' }), 'exec')
    await expectRefused(await dp.post('/execute', { command: 'true' }), 'exec')
    expect(await run({ command: 'true' })).toEqual([4429, 'RATE_LIMITED'])
    const other = await dp.sign({ sub: 'other' })
    expect((await dp.post('/exec', { command: 'true' }, { token: other })).status).toBe(200)
    await expectRefused(await dp.post('/exec', { command: 'true' }, { token: await dp.sign({ sub: 'third' }) }), 'exec')
    expect((await dp.post('/exec', { command: 'true' }, { token: await dp.sign({ tid: 'another' }) })).status).toBe(200)
  })

  test('costs nothing for what starts nothing: attaching, reading, files, bad requests, denied ones', async () => {
    expect((await dp.post('/exec', { command: 'true', exec_id: 'first' })).status).toBe(200)
    for (let i = 0; i < 3; i++) {
      expect(await run({ attach: 'first' })).toEqual([1000, undefined])
      expect((await dp.fetch('/execs/first')).status).toBe(200)
      expect((await dp.fetch('/files')).status).toBe(200)
      expect((await dp.post('/exec', {})).status).toBe(400)
      expect((await dp.post('/exec', { command: 'true' }, { token: await dp.sign({ caps: [] }) })).status).toBe(403)
    }
    expect((await dp.post('/exec', { command: 'true' })).status).toBe(200)
    await expectRefused(await dp.post('/exec', { command: 'true' }), 'exec')
  })
})

describe('ws_open', { tags: ['C-58'] }, () => {
  beforeEach(() => start({ wsOpenPerPrincipal: TWICE }))

  test('is refused before the upgrade where the token is in the header, else with error and 4429; a renewal costs nothing', async () => {
    const first = socketOf(dp.token)
    await first.frame('auth_ok')
    const second = socketOf()
    await second.opened()
    for (let i = 1; i <= 3; i++) {
      second.send({ type: 'auth', token: dp.token })
      await second.until(() => second.frames.filter(({ type }) => type === 'auth_ok').length === i)
    }
    expect(await socketOf(dp.token).refused()).toMatchObject({ status: 429, body: { error: { code: 'RATE_LIMITED' } } })
    const third = socketOf()
    await third.opened()
    third.send({ type: 'auth', token: dp.token })
    expect((await third.closed).code).toBe(4429)
    expect(third.find('error')?.error).toMatchObject({ code: 'RATE_LIMITED', details: { limit: 'ws_open' } })
    const other = socketOf(await dp.sign({ sub: 'other' }))
    await other.frame('auth_ok')
    expect((await dp.post('/exec', { command: 'true' })).status).toBe(200)
    for (const socket of [first, second, other]) socket.ws.terminate()
  })
})

describe('the buckets', { tags: ['C-58'] }, () => {
  beforeEach(() => start({}))

  test('are off unless they are set', async () => {
    const started = await Promise.all(Array.from({ length: 20 }, () => run({ argv: ['true'] })))
    expect(started.every(([code]) => code === 1000)).toBe(true)
  })

  test('fill again as time passes, up to their burst', () => {
    let now = 0
    const limits = createDataplaneLimits({ execPerPrincipal: { perSecond: 2, burst: 2 } }, () => now)
    const claims = createTestIssuer({ sandboxId: 'sb', sessionId: 'ssn' }).claims()
    const taken = (): number => {
      for (let count = 0; ; count++) {
        try {
          limits.exec(claims)
        } catch {
          return count
        }
      }
    }
    expect(taken()).toBe(2)
    now += 500
    expect(taken()).toBe(1)
    now += 60_000
    expect(taken()).toBe(2)
  })
})
