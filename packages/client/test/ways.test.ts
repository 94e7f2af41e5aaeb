import { describe, expect, test } from 'vitest'
import { BoxofficeError, ConnectionError } from '../src/base/errors.ts'
import { createWays, isDeadEnd, neverConnected, type Way } from '../src/base/ways.ts'

const DIRECT: Way = { httpBaseUrl: 'http://agent', wsBaseUrl: 'ws://agent', mode: 'direct' }
const RELAY: Way = { httpBaseUrl: 'http://broker', wsBaseUrl: 'ws://broker', mode: 'relay' }

const setUp = (relayed: (() => Promise<Way>) | null = () => Promise.resolve(RELAY), negotiated = DIRECT) => {
  const told: Way[] = []
  let asked = 0
  const ask =
    relayed === null
      ? undefined
      : () => {
          asked++
          return relayed()
        }
  const ways = createWays({ negotiated, relayed: ask, onChange: (way) => told.push(way) })
  return { ways, told, asked: () => asked }
}

describe('where a client goes when nobody answers', () => {
  test('no connection at all: to the relay, which holds once it has worked', async () => {
    const { ways, told } = setUp()
    expect(await ways.failed(DIRECT, true)).toBe(true)
    expect([ways.current, told]).toEqual([RELAY, []])
    ways.worked(RELAY)
    ways.worked(RELAY)
    expect(told).toEqual([RELAY])
    expect(await ways.failed(RELAY, true)).toBe(false)
    expect(ways.current).toBe(RELAY)
  })

  test('a connection that breaks is doubtful only; two in a row are not', async () => {
    const { ways, asked } = setUp()
    expect(await ways.failed(DIRECT, false)).toBe(false)
    ways.worked(DIRECT)
    expect(await ways.failed(DIRECT, false)).toBe(false)
    expect([ways.current, asked()]).toEqual([DIRECT, 0])
    expect(await ways.failed(DIRECT, false)).toBe(true)
    expect(ways.current).toBe(RELAY)
  })

  test('a relay that has not worked is left again: the agent is away, and both are tried in turn', async () => {
    const { ways, told, asked } = setUp()
    for (let i = 0; i < 3; i++) {
      expect(await ways.failed(DIRECT, true)).toBe(true)
      expect(ways.current).toBe(RELAY)
      expect(await ways.failed(RELAY, true)).toBe(true)
      expect(ways.current).toBe(DIRECT)
    }
    ways.worked(DIRECT)
    expect([told, asked()]).toEqual([[], 1])
  })

  test('however many fail at once, one asks', async () => {
    const { ways, asked } = setUp()
    expect(await Promise.all(Array.from({ length: 5 }, () => ways.failed(DIRECT, true)))).toEqual([true, true, true, true, true])
    expect([ways.current, asked()]).toEqual([RELAY, 1])
  })

  test('a broker without a relay is not asked at each failure', async () => {
    const { ways, asked } = setUp(() => Promise.reject(new BoxofficeError('BACKEND_UNAVAILABLE', 'never')))
    expect(await ways.failed(DIRECT, true)).toBe(false)
    expect(await ways.failed(DIRECT, true)).toBe(false)
    expect([ways.current, asked()]).toEqual([DIRECT, 1])
  })

  test('nowhere else when the caller does not want it, or is relayed already', async () => {
    const refusing = setUp(null)
    expect([await refusing.ways.failed(DIRECT, true), refusing.ways.current]).toEqual([false, DIRECT])
    const relayed = setUp(() => Promise.resolve(DIRECT), RELAY)
    expect([await relayed.ways.failed(RELAY, true), relayed.asked()]).toEqual([false, 0])
  })
})

test('what a failure says of the way', () => {
  const away = new BoxofficeError('BACKEND_UNAVAILABLE', 'away', { status: 503 })
  const lost = new BoxofficeError('SANDBOX_LOST', 'gone', { status: 503, aliases: ['BACKEND_UNAVAILABLE'] })
  expect([isDeadEnd(RELAY, away), isDeadEnd(DIRECT, away), isDeadEnd(RELAY, lost)]).toEqual([true, false, false])
  expect(isDeadEnd(DIRECT, new ConnectionError('nobody'))).toBe(true)
  const refused = new ConnectionError('nobody', Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } }))
  const broken = new ConnectionError('nobody', Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNRESET' } }))
  expect([neverConnected(refused), neverConnected(broken), neverConnected(new ConnectionError('nobody'))]).toEqual([true, false, false])
})
