import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createSessionToken } from '../src/network/session-token.ts'

const T0 = Date.parse('2026-11-22T00:00:00Z')

/** A token as a broker whose clock is `skewSeconds` ahead of ours makes it. */
const issue = (name: string, lifetimeSeconds: number, skewSeconds = 0) => {
  const iat = Math.floor(Date.now() / 1000) + skewSeconds
  const exp = iat + lifetimeSeconds
  return { token: `${name}.${btoa(JSON.stringify({ iat, exp }))}.x`, expires_at: new Date(exp * 1000).toISOString() }
}

describe('a session token', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: T0, toFake: ['Date', 'performance'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  const renewals = (lifetimeSeconds: number, skewSeconds = 0) => {
    let count = 0
    const renewal = async () => issue(`t${++count}`, lifetimeSeconds, skewSeconds)
    return { renewal, count: () => count }
  }

  test('is used until 80 % of its life, then renewed once for all who ask', async () => {
    const { renewal, count } = renewals(600)
    const token = createSessionToken(issue('t0', 600), renewal)
    vi.setSystemTime(T0 + 479_000)
    vi.advanceTimersByTime(479_000)
    expect(await token.current()).toMatch(/^t0/)
    vi.advanceTimersByTime(2_000)
    const used = await Promise.all(Array.from({ length: 20 }, () => token.current()))
    expect(new Set(used).size).toBe(1)
    expect(used[0]).toMatch(/^t1/)
    expect(count()).toBe(1)
  })

  test.for([-7200, 7200])('does not mind a clock that is %i s off', async (skew) => {
    const { renewal, count } = renewals(600, skew)
    const token = createSessionToken(issue('t0', 600, skew), renewal)
    vi.advanceTimersByTime(400_000)
    await token.current()
    expect(count()).toBe(0)
    vi.advanceTimersByTime(100_000)
    await token.current()
    expect(count()).toBe(1)
  })

  test('goes on with what it has while the broker is away, until that ends', async () => {
    const away = new Error('away')
    const token = createSessionToken(issue('t0', 600), () => Promise.reject(away))
    vi.advanceTimersByTime(500_000)
    expect(await token.current()).toMatch(/^t0/)
    vi.advanceTimersByTime(101_000)
    await expect(token.current()).rejects.toBe(away)
  })

  test('a refused one is replaced once, whoever reports it', async () => {
    const { renewal, count } = renewals(600)
    const first = issue('t0', 600)
    const token = createSessionToken(first, renewal)
    const [a, b] = await Promise.all([token.renew(first.token), token.renew(first.token)])
    expect(a).toBe(b)
    expect(await token.renew(first.token)).toBe(a)
    expect(count()).toBe(1)
  })

  test('of another kind than a JWT goes by its expiry', async () => {
    const { renewal, count } = renewals(600)
    const token = createSessionToken({ token: 'opaque', expires_at: new Date(T0 + 100_000).toISOString() }, renewal)
    vi.advanceTimersByTime(79_000)
    await token.current()
    expect(count()).toBe(0)
    vi.advanceTimersByTime(2_000)
    await token.current()
    expect(count()).toBe(1)
  })
})
