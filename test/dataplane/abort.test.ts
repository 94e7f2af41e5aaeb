import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { TestDataplane } from '../../apps/agent/test/support/dataplane.ts'
import { until } from '../../apps/agent/test/support/processes.ts'
import { refused } from '../../apps/agent/test/support/refused.ts'
import { createDataplane } from '../../packages/client/src/dataplane/dataplane.ts'
import { createExec, type Exec } from '../../packages/client/src/sandbox/exec.ts'

let plane: TestDataplane
let exec: Exec
beforeEach(async () => {
  plane = await TestDataplane.start()
  const way = { mode: 'direct' as const, httpBaseUrl: plane.base, wsBaseUrl: plane.wsBase }
  const token = { current: async () => plane.token, renew: async () => plane.token, renewInMs: () => 600_000 }
  exec = createExec(
    createDataplane({
      endpoints: { current: way, worked: () => {}, failed: async () => false } as never,
      token: token as never,
      WebSocket,
      requestTimeoutMs: 10_000,
      reconnectWindowMs: 30_000,
      signal: undefined,
      fetch,
    }),
  )
})
afterEach(() => plane[Symbol.asyncDispose]())

/** It and its child ignore TERM. */
const STUBBORN = `trap '' TERM; (while :; do sleep 1; done) & touch started; while :; do sleep 1; done`
const started = (): Promise<void> =>
  until('it runs', () =>
    access(join(plane.sandbox.workspacePath, 'started')).then(
      () => true,
      () => false,
    ),
  )

type End = { state: string; signal: string | null; reason: string; kill_cause: string | null }
const endOf = async (id: string): Promise<End> => {
  let end: End | undefined
  await until('it has ended', async () => {
    end = (await (await plane.fetch(`/execs/${id}`)).json()) as End
    return end.state === 'exited'
  })
  return end as End
}
const KILLED = { signal: 'SIGKILL', reason: 'signaled', kill_cause: null }

test('[C-29] an aborted exec that ignores TERM is killed, also without its client', async () => {
  const controller = new AbortController()
  const reason = new Error('changed my mind')
  const running = exec(STUBBORN, { execId: 'aborted', signal: controller.signal })
  running.catch(() => {})
  await started()
  controller.abort(reason)
  await expect(running).rejects.toBe(reason)
  expect(await endOf('aborted')).toMatchObject(KILLED)
})

test('[C-29] an aborted exec.start too', async () => {
  const controller = new AbortController()
  const run = await exec.start(STUBBORN, { execId: 'aborted', signal: controller.signal })
  run.exit.catch(() => {})
  await started()
  controller.abort(new Error('changed my mind'))
  expect(await endOf('aborted')).toMatchObject(KILLED)
})

test('[3.2] kill_after_seconds follows TERM and no other signal', async () => {
  const run = await exec.start(STUBBORN, { execId: 'signalled' })
  run.exit.catch(() => {})
  await started()
  const signal = (body: Record<string, unknown>): Promise<Response> => plane.post('/execs/signalled/signal', body)
  for (const body of [
    { signal: 'INT', kill_after_seconds: 1 },
    { signal: 'KILL', kill_after_seconds: 0 },
    { signal: 'TERM', kill_after_seconds: 61 },
    { signal: 'TERM', kill_after_seconds: -1 },
  ])
    expect(await refused(await signal(body))).toEqual([400, 'INVALID_REQUEST'])
  expect((await signal({ signal: 'SIGTERM', kill_after_seconds: 60 })).status).toBe(204)
  expect((await signal({ signal: 'TERM', kill_after_seconds: 0 })).status).toBe(204)
  expect(await endOf('signalled')).toMatchObject(KILLED)
})

test('[4-129] close is carried out also when its client has left', { timeout: 120_000 }, async () => {
  const socket = new WebSocket(`${plane.wsBase}/exec/ws`, ['boxoffice.v1'])
  const ready = Promise.withResolvers<void>()
  socket.addEventListener('message', ({ data }) => {
    if (JSON.parse(String(data)).type === 'ready') ready.resolve()
  })
  socket.addEventListener('open', () => {
    socket.send(JSON.stringify({ type: 'auth', token: plane.token }))
    socket.send(JSON.stringify({ type: 'start', exec_id: 'closed', command: 'exec sleep 1000' }))
  })
  await ready.promise
  socket.send(JSON.stringify({ type: 'close' }))
  socket.close()
  expect(await endOf('closed')).toMatchObject({ signal: 'SIGTERM', reason: 'killed', kill_cause: 'closed' })
})
