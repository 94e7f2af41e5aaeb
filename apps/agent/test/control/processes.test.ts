import { ListProcessesResponse, StartProcessRequest } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { startControl } from './support/start-control.ts'

test('[2-25, 2-22] the broker hears of processes, ended ones too; to ask is no use of the sandbox, and wakes none', async () => {
  const { host, ask } = await startControl()
  const { manager } = host
  const processes = async (id: string) =>
    ListProcessesResponse.parse((await ask('GET', `/sandboxes/${id}/processes`)).body).processes.map(
      ({ process_id, status, exit_code, stderr_preview }) => ({
        ...{ process_id, status, exit_code, stderr_preview },
      }),
    )
  const sandbox = await host.ensure('s1')
  const { id } = sandbox
  expect(await processes(id)).toEqual([])
  const start = (process_id: string, script: string) =>
    sandbox.processes.start(StartProcessRequest.parse({ process_id, command: 'sh', args: ['-c', script] }), AbortSignal.timeout(60_000))
  await start('ends', 'echo why >&2; exit 3')
  await start('runs', 'exec cat')
  const ended = { process_id: 'ends', status: 'exited', exit_code: 3, stderr_preview: 'why\n' }
  await expect.poll(() => processes(id)).toEqual([ended, { process_id: 'runs', status: 'running', exit_code: null, stderr_preview: '' }])
  await sandbox.processes.stop('runs')
  // A use sets it back to nothing.
  await expect.poll(() => sandbox.activity.snapshot().idle_ms).toBeGreaterThan(50)
  const before = sandbox.activity.snapshot().idle_ms
  await processes(id)
  expect(sandbox.activity.snapshot().idle_ms).toBeGreaterThanOrEqual(before)
  for (const mode of ['freeze', 'stop'] as const) {
    await manager.suspend(id, mode, { force: true })
    const { state } = host.find(id)
    expect((await processes(id)).find(({ process_id }) => process_id === 'ends')).toEqual(ended)
    expect(host.find(id).state).toBe(state)
  }
  await manager.destroy(id, 'released')
  expect(await ask('GET', `/sandboxes/${id}/processes`)).toMatchObject({ status: 404, body: { error: { code: 'BINDING_NOT_FOUND' } } })
})
