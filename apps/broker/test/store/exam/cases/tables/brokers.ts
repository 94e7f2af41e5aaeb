import { expect, test } from 'vitest'
import type { Stores } from '../../exam.ts'
import { fresh, together } from '../../parts.ts'

export function brokerCases(at: Stores): void {
  test('[4-15] brokers are alive while they are heard of, and are forgotten one by one', async () => {
    const [a, b, c] = [fresh('brk'), fresh('brk'), fresh('brk')]
    await together(at, 3, (store, n) => store.brokers.heartbeat([a, b, c][n] ?? '', n, 1_000_000 + n))
    expect((await at.other.brokers.alive(1_000_001)).toSorted()).toEqual([b, c].toSorted())
    await at.other.brokers.heartbeat(a, 7, 1_000_009)
    expect((await at.one.brokers.alive(1_000_002)).toSorted()).toEqual([a, c].toSorted())
    expect((await at.one.brokers.present([a, b])).toSorted()).toEqual([a, b].toSorted())
    await at.one.brokers.forget(c)
    await at.one.brokers.forget(fresh('brk'))
    expect(await at.other.brokers.alive(1_000_002)).toEqual([a])
    expect((await at.other.brokers.alive(0)).toSorted()).toEqual([a, b].toSorted())
    await at.one.brokers.forgetDead(1_000_009)
    expect(await at.other.brokers.alive(0)).toEqual([a])
  })

  test('brokers that start at once share one issuer, until one is told its URL', async () => {
    const issuers = await together(at, 8, (store, n) => store.brokers.issuer(`http://broker-${n}`, false))
    expect(new Set(issuers).size).toBe(1)
    expect(issuers[0]).toMatch(/^http:\/\/broker-\d$/)
    expect(await at.one.brokers.issuer('https://own', true)).toBe('https://own')
    expect(await at.other.brokers.issuer('http://another', false)).toBe('https://own')
  })

  test('all brokers read one clock, and one of them at least does the upkeep', async () => {
    const clocks = [await at.one.brokers.now(), await at.other.brokers.now(), await at.one.brokers.now()]
    expect(clocks).toEqual(clocks.toSorted((a, b) => a - b))
    expect(Math.abs((clocks[0] ?? 0) - Date.now())).toBeLessThan(60_000)
    await expect.poll(async () => (await at.one.brokers.leads()) || (await at.other.brokers.leads())).toBe(true)
  })
}
