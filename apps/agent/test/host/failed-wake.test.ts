import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import { run } from './support/exec.ts'
import { Host, processesOf, silent } from './support/host.ts'

const open = ({ path, installId }: { path: string; installId: string }) =>
  createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent })

/** A host with a stopped sandbox that has a file, and whose wakes fail until `mend`: the supervisor's binary is not where it was. */
const stoppedHost = async () => {
  const host = await Host.start(open)
  const sandbox = await host.ensure('s1')
  await run(sandbox, 'echo kept > file')
  await host.manager.suspend(sandbox.id, 'stop')
  const bin = join(host.dataDirectory, 'bin')
  await rename(bin, `${bin}-away`)
  return { host, id: sandbox.id, uid: sandbox.file.uid, mend: () => rename(`${bin}-away`, bin) }
}

const MINUTE = () => AbortSignal.timeout(60_000)

test('[4-90] a sandbox whose wake fails stays stopped, and the next wake finds its files', async () => {
  const { host, id, uid, mend } = await stoppedHost()
  await using _ = host
  const sandbox = host.find(id)
  for (const wake of [() => sandbox.ready(MINUTE()), () => host.manager.resume(id)])
    await expect(wake()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  expect([sandbox.state, sandbox.file.stopped]).toEqual(['stopped', true])
  await expect.poll(() => processesOf(uid)).toEqual([])
  await mend()
  await sandbox.ready(MINUTE())
  expect(await run(sandbox, 'cat file')).toMatchObject({ stdout: 'kept\n', code: 0 })
  expect([sandbox.state, sandbox.file.stopped]).toEqual(['running', false])
})

test('[4-90] looks at a sandbox during its failing wake do not lose it', async () => {
  const { host, id, mend } = await stoppedHost()
  await using _ = host
  const sandbox = host.find(id)
  let waking = true
  const woken = sandbox.ready(MINUTE()).finally(() => {
    waking = false
  })
  woken.catch(() => {})
  // Not of the engine, which may have seen a process come and go.
  const seen = new Set<string>()
  while (waking) {
    seen.add(sandbox.state)
    await Promise.race([Promise.all([host.manager.inventory.verifyAll(), sandbox.verify()]), setImmediate()])
    await setImmediate()
  }
  await expect(woken).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  expect([...seen]).toEqual(['stopped'])
  expect(await host.provider.sandboxes.inspect({ id, engineId: '', state: 'stopped', profileHash: '' })).toMatchObject({ state: 'stopped' })
  expect(sandbox.lost).toBeUndefined()
  await mend()
  await sandbox.ready(MINUTE())
  expect(await run(sandbox, 'cat file')).toMatchObject({ stdout: 'kept\n' })
})

test('[4-90] a sandbox whose wake failed is adopted as stopped by the next run of the agent', async () => {
  const { host: before, id, mend } = await stoppedHost()
  await expect(before.find(id).ready(MINUTE())).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  // The next run finds the supervisor where it wants it.
  await mend()
  await using host = await before.restart()
  expect(host.find(id).state).toBe('stopped')
  await host.find(id).ready(MINUTE())
  expect(await run(host.find(id), 'cat file')).toMatchObject({ stdout: 'kept\n' })
})

test('[4-90] a sandbox whose wake the agent did not live to undo is adopted as stopped', async () => {
  const { host: before, id, mend } = await stoppedHost()
  await mend()
  // The engine's part of a wake, and the end of what it started: the record still says that the sandbox is stopped.
  const handle = { id, engineId: '', state: 'stopped', profileHash: '' } as const
  await before.provider.sandboxes.resume(handle)
  const { supervisor } = (await before.provider.host.inside?.(handle)) ?? expect.unreachable('its supervisor runs')
  process.kill(supervisor, 'SIGKILL')
  await expect.poll(() => before.provider.sandboxes.inspect(handle)).toMatchObject({ state: 'lost' })
  await using host = await before.restart()
  expect(host.find(id).state).toBe('stopped')
  await host.find(id).ready(MINUTE())
  expect(await run(host.find(id), 'cat file')).toMatchObject({ stdout: 'kept\n' })
})

test('an end beside a failing wake is the end', async () => {
  const { host, id, uid } = await stoppedHost()
  await using _ = host
  const woken = host
    .find(id)
    .ready(MINUTE())
    .catch((error: unknown) => error)
  await host.manager.destroy(id, 'released')
  expect(await woken).toMatchObject({ code: 'SESSION_EXPIRED', details: { reason: 'released' } })
  expect(await Array.fromAsync(host.provider.sandboxes.list())).toEqual([])
  await expect.poll(() => processesOf(uid)).toEqual([])
})
