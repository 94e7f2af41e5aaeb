import { type Exec, BoxofficeError as SdkError, SilenceError } from '@boxoffice/client'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { BoxofficeError } from '../src/errors.ts'
import { execute } from '../src/execute.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const SILENT_MS = 20_000
const RESULT = { stdout: 'out', stderr: '', exitCode: 0, spawnError: null, stdoutTruncated: false, stderrTruncated: false }

/** A session whose commands fail in these ways, one after the other, and then end. A function fails after it has run. */
const failing = (...errors: unknown[]) => {
  const ids: unknown[] = []
  const exec = async (_: unknown, { execId }: { execId?: string } = {}) => {
    ids.push(execId)
    const error = errors.shift()
    if (error !== undefined) throw typeof error === 'function' ? error() : error
    return RESULT
  }
  return { ids, session: { exec: exec as unknown as Exec } }
}
const run = async (session: { exec: Exec }, { retryWindowMs = 60_000, timeout = 60 } = {}) => {
  let ended = 0
  const onEnded = async () => {
    ended++
  }
  return { ...(await execute(session, 'true', { timeout, retryWindowMs, signal: undefined, onEnded })), ended }
}
/** Of a connection that was alive for so long before. */
const silence = (aliveMs = 0) => {
  vi.advanceTimersByTime(aliveMs + SILENT_MS)
  return new SilenceError(SILENT_MS, { final: true, certain: true })
}

test('[7.1] a command behind a silent network, or behind too many others, is asked for again by its id', async () => {
  const { session, ids } = failing(silence, silence, new SdkError('RATE_LIMITED', 'busy', { retryAfter: 3 }))
  const running = run(session)
  await vi.advanceTimersByTimeAsync(2_999)
  expect(ids.length).toBe(3)
  await vi.advanceTimersByTimeAsync(1)
  expect(await running).toMatchObject({ output: 'out', exitCode: 0, ended: 0 })
  expect([ids.length, new Set(ids).size]).toEqual([4, 1])
})

test('[7.1] a network that is silent again, after it was not, has the whole retry window again', async () => {
  const { session } = failing(silence, silence, () => silence(100_000), silence)
  expect(await run(session, { retryWindowMs: 30_000 })).toMatchObject({ exitCode: 0 })
  const error = await run(failing(silence, silence, silence).session, { retryWindowMs: 30_000 }).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'CONNECTION_FAILED' })
})

test('[7.1] a network that is silent for longer than the retry window throws', async () => {
  await expect(run(failing(silence).session, { retryWindowMs: 0 })).rejects.toMatchObject({ code: 'CONNECTION_FAILED' })
})

test('[7.1] a command that never gets its turn has exit code 124', async () => {
  expect(await run(failing(new SdkError('RATE_LIMITED', 'busy')).session, { timeout: 0 })).toMatchObject({
    exitCode: 124,
    truncated: false,
  })
})

test.for(['SESSION_EXPIRED', 'SANDBOX_LOST', 'BINDING_NOT_FOUND'])(
  '[7.1] after %s the command has exit code 255, and the session is let go of',
  async (code) => {
    expect(await run(failing(new SdkError(code, 'over')).session)).toMatchObject({ exitCode: 255, ended: 1 })
  },
)

test.for(['INVALID_REQUEST', 'PAYLOAD_TOO_LARGE', 'INTERNAL', 'QUOTA_EXCEEDED'])('[7.1] %s is a result', async (code) => {
  expect(await run(failing(new SdkError(code, 'why')).session)).toMatchObject({ output: expect.stringContaining('why'), exitCode: 1 })
})

test.for(['SESSION_RELEASED', 'UNAUTHENTICATED', 'FORBIDDEN', 'CONNECTION_FAILED', 'BACKEND_UNAVAILABLE'])(
  '[7.1] %s is thrown',
  async (code) => {
    const cause = new SdkError(code, 'why')
    const error = await run(failing(cause).session).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(BoxofficeError)
    expect(error).toMatchObject({ code, cause })
  },
)

test('[7.1] an abort stays what it is', async () => {
  const reason = new DOMException('cancelled', 'AbortError')
  await expect(run(failing(reason).session)).rejects.toBe(reason)
})
