import { describe, expect, test } from 'vitest'
import { TokenBuckets } from '../src/bounds/token-buckets.ts'

describe('[C-58] a token bucket', () => {
  const limitAt = (rate: { perSecond: number; burst: number }) => {
    const clock = { now: 1_000_000 }
    return { clock, limit: new TokenBuckets(rate, () => clock.now) }
  }

  test('lets a burst through, then as many as come in', () => {
    const { clock, limit } = limitAt({ perSecond: 2, burst: 3 })
    const takes = (n: number) => Array.from({ length: n }, () => limit.take('a').ok)
    expect(takes(4)).toEqual([true, true, true, false])
    clock.now += 499
    expect(takes(1)).toEqual([false])
    clock.now += 1
    expect(takes(2)).toEqual([true, false])
    clock.now += 3_600_000
    expect(takes(4)).toEqual([true, true, true, false])
  })

  test('[C-59] says in whole seconds when there is one again', () => {
    const { clock, limit } = limitAt({ perSecond: 0.1, burst: 1 })
    limit.take('a')
    expect(limit.take('a')).toEqual({ ok: false, retryAfter: 10 })
    clock.now += 9_500
    expect(limit.take('a')).toEqual({ ok: false, retryAfter: 1 })
    clock.now += 500
    expect(limit.take('a')).toEqual({ ok: true })
  })

  test('a share of it gives that part of the burst and of what comes in, and one token at least', () => {
    const { clock, limit } = limitAt({ perSecond: 2, burst: 4 })
    const takes = (share: number, n: number) => Array.from({ length: n }, () => limit.take('a', share).ok)
    expect(takes(0.5, 3)).toEqual([true, true, false])
    clock.now += 1000
    expect(takes(0.5, 2)).toEqual([true, false])
    clock.now += 3_600_000
    expect(takes(0.1, 2)).toEqual([true, false])
    // The others have gone: the whole rate is its own again.
    clock.now += 3_600_000
    expect(takes(1, 5)).toEqual([true, true, true, true, false])
  })

  test('each key has its own', () => {
    const { limit } = limitAt({ perSecond: 1, burst: 1 })
    expect(['a', 'b', 'a'].map((key) => limit.take(key).ok)).toEqual([true, true, false])
  })

  test('a clock that is set back neither gives nor locks out', () => {
    const { clock, limit } = limitAt({ perSecond: 1, burst: 2 })
    limit.take('a')
    clock.now -= 3_600_000
    expect([limit.take('a').ok, limit.take('a').ok]).toEqual([true, false])
    clock.now += 1000
    expect(limit.take('a').ok).toBe(true)
  })

  test('of too many buckets the one that was asked the longest ago is forgotten', () => {
    const limit = new TokenBuckets({ perSecond: 1, burst: 1 }, () => 0, 2)
    expect(['a', 'b', 'a', 'c', 'a', 'b'].map((key) => limit.take(key).ok)).toEqual([true, true, false, true, false, true])
  })
})
