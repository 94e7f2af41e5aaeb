import { ConnectionError, type Exec, BoxofficeError as SdkError } from '@boxoffice/client'
import { expect, test } from 'vitest'
import { BoxofficeError } from '../src/errors.ts'
import { execute } from '../src/execute.ts'

const RESULT = { stdout: 'out', stderr: '', exitCode: 0, spawnError: null, stdoutTruncated: false, stderrTruncated: false }

/** A session whose commands fail in these ways, one after the other, and then end. */
const failing = (...errors: unknown[]) => {
  const ids: unknown[] = []
  const exec = async (_: unknown, { execId }: { execId?: string } = {}) => {
    ids.push(execId)
    if (errors.length > 0) throw errors.shift()
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
const silence = () => Object.assign(new ConnectionError('silent'), { final: true })

test('[7.1] a command behind a silent network, or behind too many others, is asked for again by its id', async () => {
  const { session, ids } = failing(silence(), silence(), new SdkError('RATE_LIMITED', 'busy'))
  expect(await run(session)).toMatchObject({ output: 'out', exitCode: 0, ended: 0 })
  expect([ids.length, new Set(ids).size]).toEqual([4, 1])
})

test('[7.1] a network that is silent for longer than the retry window throws', async () => {
  await expect(run(failing(silence()).session, { retryWindowMs: 0 })).rejects.toMatchObject({ code: 'CONNECTION_FAILED' })
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
