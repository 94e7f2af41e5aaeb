import { join } from 'node:path'
import { expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant, type Reply } from '../support/api.ts'
import { type Program, startProgram } from '../support/program.ts'
import { ENROLL_TOKEN, startStack } from '../support/stack.ts'

/** More than any machine has: a new sandbox would take of what is kept free. */
const FULL = { BOXOFFICE_RESERVE: '{"memory_mb":1000000000}' }
const NO_ROOM = [
  503,
  expect.objectContaining({
    ...{ code: 'AGENT_FULL', aliases: ['BACKEND_UNAVAILABLE'], retryable: true, details: { limit: 'memory' } },
    message: expect.stringMatching(/no room for another sandbox: .* of memory are free/),
  }),
]

const run = async (grant: Grant, command: string): Promise<unknown> =>
  ((await dataplane(grant, 'POST', '/exec', { command })).body as { stdout?: string }).stdout
const refusalOf = ({ status, body }: Reply): unknown => [status, (body as { error: unknown }).error]

test('[C-45] a full agent keeps what it has; what is new goes to one with room, unless its workspace is on the full one', async () => {
  await using stack = await startStack({ provider: 'local' })
  const api = brokerApi(stack.brokerUrl)
  const ensure = (thread_id: string): Promise<Reply> => api.negotiate({ thread_id, mode: 'ensure' })
  const startSecond = (env: Record<string, string> = {}): Promise<Program> =>
    startProgram(
      [
        ...['agent', '--broker-url', stack.brokerUrl, '--enroll-token', ENROLL_TOKEN, '--provider', 'local', '--port', '0'],
        ...['--data-dir', join(stack.agentDataDir, '..', 'second'), '--destroy-on-exit'],
      ],
      env,
    )
  // So that the second has fewer sessions, and gets those that follow.
  for (const thread of ['first-1', 'first-2', 'first-3']) await api.ensure(thread)
  let second = await startSecond()
  const isOnSecond = ({ sandbox }: Grant): boolean => new URL(sandbox.http_base_url).port === new URL(second.ready.agent_url).port
  try {
    const kept = await api.ensure('kept')
    const live = await api.ensure('live')
    expect([isOnSecond(kept), isOnSecond(live), await run(kept, 'echo mine > file; cat file')]).toEqual([true, true, 'mine\n'])
    expect((await api.release(`${kept.session_id}?keep_workspace=true`)).status).toBe(204)
    await second.kill('SIGKILL')

    second = await startSecond(FULL)
    const again = await api.ensure('live')
    expect([again.session_id, isOnSecond(again), await run(again, 'echo still here')]).toEqual([live.session_id, true, 'still here\n'])
    expect(refusalOf(await ensure('kept'))).toEqual(NO_ROOM)
    for (const thread of ['new-1', 'new-2', 'new-3']) {
      const made = await api.ensure(thread)
      expect([isOnSecond(made), await run(made, 'echo made')]).toEqual([false, 'made\n'])
    }
    await stack.agent().stop()
    expect(refusalOf(await ensure('new-4'))).toEqual(NO_ROOM)
    await second.kill('SIGKILL')

    second = await startSecond()
    const back = await api.ensure('kept')
    expect([isOnSecond(back), await run(back, 'cat file')]).toEqual([true, 'mine\n'])
  } finally {
    await second.stop()
  }
})
