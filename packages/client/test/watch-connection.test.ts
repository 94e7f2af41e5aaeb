import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { WebSocketConstructor, WebSocketLike } from '../src/index.ts'
import { runWatchConnection } from '../src/stream/watch-connection.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const RENEW_IN_MS = 1_000
const watch = (WebSocket: unknown, current: () => Promise<string>) => {
  const token = { expiresAt: new Date(), current, renew: current, renewInMs: () => RENEW_IN_MS }
  const dataplane = { WebSocket: WebSocket as WebSocketConstructor, token, requestTimeoutMs: 10_000 }
  return runWatchConnection(dataplane, { url: 'ws://sandbox/files/watch', token: 't', signal: new AbortController().signal, frame() {} })
}

test.for(['renewed', 'refused'])('a watch that is lost while its token is %s leaves no timer', async (how) => {
  const listeners = new Map<string, (event: object) => void>()
  const socket: Partial<WebSocketLike> = {
    readyState: 1,
    addEventListener: (type: string, listener: (event: never) => void) => void listeners.set(type, listener as never),
  }
  const answer = Promise.withResolvers<string>()
  const asked = vi.fn(() => answer.promise)
  const ended = watch(function WebSocket() {
    return socket
  }, asked)
  listeners.get('open')?.({})
  await vi.advanceTimersByTimeAsync(RENEW_IN_MS + 100)
  expect(asked).toHaveBeenCalledOnce()
  listeners.get('close')?.({ code: 1006, reason: '' })
  await ended
  if (how === 'renewed') answer.resolve('fresh')
  else answer.reject(new Error('the broker is away'))
  await vi.advanceTimersByTimeAsync(0)
  expect(vi.getTimerCount()).toBe(0)
})

test('a watch without a WebSocket leaves no timer', () => {
  const none = function WebSocket() {
    throw new Error('no WebSocket')
  }
  expect(() => watch(none, async () => 't')).toThrow('no WebSocket')
  expect(vi.getTimerCount()).toBe(0)
})
