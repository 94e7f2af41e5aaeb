import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { until } from '../../support/processes.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const stateOf = async (id: string): Promise<string> => ((await (await dp.fetch(`/execs/${id}/state`)).json()) as { state: string }).state

describe('GET ping', () => {
  test('is 204 for every valid token, whatever it grants, and 401 for another', async () => {
    const none = await dp.sign({ caps: [] })
    for (const token of [dp.token, none]) expect((await dp.fetch('/ping', { token })).status).toBe(204)
    expect((await dp.fetch('/ping', { token: `${none.slice(0, -8)}AAAAAAAA` })).status).toBe(401)
    expect((await dp.fetch('/ping', { method: 'POST' })).status).toBe(405)
  })

  test('is no activity, as the state of an exec is none', async () => {
    const touch = vi.spyOn(dp.sandbox.activity, 'touch')
    const attach = vi.spyOn(dp.sandbox.activity, 'attach')
    await dp.fetch('/ping')
    await dp.fetch('/execs/none/state')
    expect([touch.mock.calls.length, attach.mock.calls.length]).toEqual([0, 0])
    await dp.fetch('/execs')
    expect([touch.mock.calls.length, attach.mock.calls.length]).toEqual([1, 1])
  })
})

describe('GET execs/:id/state', () => {
  test('says running, exited and missing', async () => {
    await dp.post('/exec', { argv: ['sleep', '600'], exec_id: 'asked', detach: true })
    expect(await (await dp.fetch('/execs/asked/state')).json()).toEqual({ exec_id: 'asked', state: 'running' })
    await dp.post('/execs/asked/signal', { signal: 'KILL' })
    await until('it has ended', async () => (await stateOf('asked')) === 'exited')
    expect([await stateOf('never'), await stateOf('not.an~id')]).toEqual(['missing', 'missing'])
  })

  test('needs exec', async () => {
    const token = await dp.sign({ caps: ['shell', 'fs_read', 'fs_write'] })
    expect((await dp.fetch('/execs/asked/state', { token })).status).toBe(403)
  })

  test('says unknown of a sandbox that does not answer', async () => {
    process.kill(dp.sandbox.supervisorPid, 'SIGSTOP')
    try {
      expect(await stateOf('asked')).toBe('unknown')
    } finally {
      process.kill(dp.sandbox.supervisorPid, 'SIGCONT')
    }
    await until('it answers again', async () => (await stateOf('never')) === 'missing')
  })
})
