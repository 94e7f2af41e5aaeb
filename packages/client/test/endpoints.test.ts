import { describe, expect, test } from 'vitest'
import { BoxofficeError, ConnectionError } from '../src/base/errors.ts'
import { createEndpoints, type Endpoint, isDeadEnd, neverConnected } from '../src/network/endpoints.ts'

const DIRECT: Endpoint = { httpBaseUrl: 'http://agent', wsBaseUrl: 'ws://agent', mode: 'direct' }
const RELAY: Endpoint = { httpBaseUrl: 'http://broker', wsBaseUrl: 'ws://broker', mode: 'relay' }

const setUp = (relayed: (() => Promise<Endpoint>) | null = () => Promise.resolve(RELAY), negotiated = DIRECT) => {
  const told: Endpoint[] = []
  let asked = 0
  const ask =
    relayed === null
      ? undefined
      : () => {
          asked++
          return relayed()
        }
  const endpoints = createEndpoints({ negotiated, relayed: ask, onChange: (endpoint) => told.push(endpoint) })
  return { endpoints, told, asked: () => asked }
}

describe('where a client goes when nobody answers', () => {
  test('no connection at all: to the relay, which holds once it has worked', async () => {
    const { endpoints, told } = setUp()
    expect(await endpoints.failed(DIRECT, true)).toBe(true)
    expect([endpoints.current, told]).toEqual([RELAY, []])
    endpoints.worked(RELAY)
    endpoints.worked(RELAY)
    expect(told).toEqual([RELAY])
    expect(await endpoints.failed(RELAY, true)).toBe(false)
    expect(endpoints.current).toBe(RELAY)
  })

  test('a connection that breaks is doubtful only; two in a row are not', async () => {
    const { endpoints, asked } = setUp()
    expect(await endpoints.failed(DIRECT, false)).toBe(false)
    endpoints.worked(DIRECT)
    expect(await endpoints.failed(DIRECT, false)).toBe(false)
    expect([endpoints.current, asked()]).toEqual([DIRECT, 0])
    expect(await endpoints.failed(DIRECT, false)).toBe(true)
    expect(endpoints.current).toBe(RELAY)
  })

  test('a relay that has not worked is left again: the agent is away, and both are tried in turn', async () => {
    const { endpoints, told, asked } = setUp()
    for (let i = 0; i < 3; i++) {
      expect(await endpoints.failed(DIRECT, true)).toBe(true)
      expect(endpoints.current).toBe(RELAY)
      expect(await endpoints.failed(RELAY, true)).toBe(true)
      expect(endpoints.current).toBe(DIRECT)
    }
    endpoints.worked(DIRECT)
    expect([told, asked()]).toEqual([[], 1])
  })

  test('however many fail at once, one asks', async () => {
    const { endpoints, asked } = setUp()
    expect(await Promise.all(Array.from({ length: 5 }, () => endpoints.failed(DIRECT, true)))).toEqual([true, true, true, true, true])
    expect([endpoints.current, asked()]).toEqual([RELAY, 1])
  })

  test('a broker without a relay is not asked at each failure', async () => {
    const { endpoints, asked } = setUp(() => Promise.reject(new BoxofficeError('BACKEND_UNAVAILABLE', 'never')))
    expect(await endpoints.failed(DIRECT, true)).toBe(false)
    expect(await endpoints.failed(DIRECT, true)).toBe(false)
    expect([endpoints.current, asked()]).toEqual([DIRECT, 1])
  })

  test('nowhere else when the caller does not want it, or is relayed already', async () => {
    const refusing = setUp(null)
    expect([await refusing.endpoints.failed(DIRECT, true), refusing.endpoints.current]).toEqual([false, DIRECT])
    const relayed = setUp(() => Promise.resolve(DIRECT), RELAY)
    expect([await relayed.endpoints.failed(RELAY, true), relayed.asked()]).toEqual([false, 0])
  })
})

test('what a failure says of the endpoint', () => {
  const away = new BoxofficeError('BACKEND_UNAVAILABLE', 'away', { status: 503 })
  const lost = new BoxofficeError('SANDBOX_LOST', 'gone', { status: 503, aliases: ['BACKEND_UNAVAILABLE'] })
  expect([isDeadEnd(RELAY, away), isDeadEnd(DIRECT, away), isDeadEnd(RELAY, lost)]).toEqual([true, false, false])
  expect(isDeadEnd(DIRECT, new ConnectionError('nobody'))).toBe(true)
  const refused = new ConnectionError('nobody', Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } }))
  const broken = new ConnectionError('nobody', Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNRESET' } }))
  expect([neverConnected(refused), neverConnected(broken), neverConnected(new ConnectionError('nobody'))]).toEqual([true, false, false])
})
