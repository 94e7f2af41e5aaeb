import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { limitedBody } from '../../src/dataplane/files/limited-body.ts'
import { readBody } from '../../src/http/body.ts'
import { tooLarge } from '../../src/http/too-large.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** A body that a test sends a byte at a time, and what has become of it. */
const slowBody = () => {
  const stream = new PassThrough()
  const outcome = readBody(Object.assign(stream, { headers: {} }) as unknown as IncomingMessage, 1000).then(
    (body) => body.toString(),
    (error: { code: string }) => error.code,
  )
  const state = () => Promise.race([outcome, new Promise((resolve) => setImmediate(() => resolve('pending')))])
  return {
    state,
    end: () => stream.end(),
    async byteAfter(seconds: number) {
      await vi.advanceTimersByTimeAsync(seconds * 1000)
      stream.write('x')
      return state()
    },
  }
}

test('[2.1] a body has 30 s for its next byte, then it is 408 TIMEOUT', async () => {
  const body = slowBody()
  expect(await body.byteAfter(29)).toBe('pending')
  await vi.advanceTimersByTimeAsync(29_000)
  expect(await body.state()).toBe('pending')
  await vi.advanceTimersByTimeAsync(1001)
  expect(await body.state()).toBe('TIMEOUT')
})

test('[2.1] a body that drips has 60 s as a whole', async () => {
  const body = slowBody()
  expect([await body.byteAfter(29), await body.byteAfter(29), await body.byteAfter(3)]).toEqual(['pending', 'pending', 'TIMEOUT'])
})

test('[2.1] a body that comes to its end in time is read', async () => {
  const body = slowBody()
  await body.byteAfter(20)
  await body.byteAfter(20)
  body.end()
  await expect.poll(() => body.state()).toBe('xx')
})

test('[2.1] an archive has 120 s for its next byte; what the sandbox does not take is not the client’s slowness', async () => {
  const body = new PassThrough()
  const gate = limitedBody(body, { bytes: 10_000_000, refused: () => tooLarge(10_000_000) }, () => {})
  const outcome = new Promise<unknown>((resolve) => gate.once('error', resolve))
  const state = () => Promise.race([outcome, new Promise((resolve) => setImmediate(() => resolve('pending')))])
  const byte = async (): Promise<void> => {
    body.write('x')
    await new Promise(setImmediate)
  }
  await vi.advanceTimersByTimeAsync(119_000)
  await byte()
  // Nobody reads the gate.
  await vi.advanceTimersByTimeAsync(500_000)
  expect(await state()).toBe('pending')
  gate.resume()
  await byte()
  await vi.advanceTimersByTimeAsync(119_000)
  expect(await state()).toBe('pending')
  await vi.advanceTimersByTimeAsync(2000)
  expect(await state()).toMatchObject({ code: 'TIMEOUT' })
})
