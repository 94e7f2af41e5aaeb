import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import type { SandboxEngine } from '../../src/sandbox/provider.ts'
import { run } from './support/exec.ts'
import { Host, processesOf, silent } from './support/host.ts'

/** A host whose provider stops before or after a call of `create` until the test lets it go on. */
const startHost = async () => {
  const held: Record<'before' | 'after', (() => Promise<void>) | undefined> = { before: undefined, after: undefined }
  const host = await Host.start(async ({ path, installId }) => {
    const provider = await createLocalProvider({ dataDirectory: path, installId, isolation: 'auto', log: silent })
    const create: SandboxEngine['create'] = async (...args) => {
      await held.before?.()
      const handle = await provider.sandboxes.create(...args)
      await held.after?.()
      return handle
    }
    return { ...provider, sandboxes: { ...provider.sandboxes, create } }
  })
  return { host, held }
}

const gate = () => {
  const entered = Promise.withResolvers<void>()
  const opened = Promise.withResolvers<void>()
  const pass = (): Promise<void> => {
    entered.resolve()
    return opened.promise
  }
  return { entered: entered.promise, open: opened.resolve, pass }
}

describe('[C-25] an end beside a start', () => {
  test.each(['before', 'after'] as const)('%s the engine has made the sandbox: nothing is left of it', async (when) => {
    const { host, held } = await startHost()
    await using _ = host
    const { entered, open, pass } = gate()
    held[when] = pass
    const made = host.ensure('s1').catch((error: unknown) => error)
    await entered
    const [{ sandbox_id: id = '' } = {}] = host.manager.inventory.reports()
    const { uid } = host.find(id).file
    const ended = host.manager.destroy(id, 'released')
    open()
    await ended
    expect(await made).toMatchObject({ code: 'SESSION_EXPIRED', details: { reason: 'released' } })
    expect(await Array.fromAsync(host.provider.sandboxes.list())).toEqual([])
    expect(host.manager.inventory.reports()).toEqual([])
    await expect.poll(() => processesOf(uid)).toEqual([])
    held[when] = undefined
    // Neither is the session's name taken.
    expect(await run(await host.ensure('s2'), 'echo up')).toMatchObject({ stdout: 'up\n' })
  })

  test('a session that has ended is given no sandbox, whether its end comes before the start or beside it', async () => {
    const { host, held } = await startHost()
    await using _ = host
    const { entered, open, pass } = gate()
    held.after = pass
    const made = host.ensure('s1').catch((error: unknown) => error)
    await entered
    host.revocations.apply({ sessions: [{ session_id: 's1', reason: 'released', until: Date.now() / 1000 + 600 }], tokens: [] })
    open()
    const refusal = { code: 'SESSION_EXPIRED', details: { reason: 'released' } }
    expect(await made).toMatchObject(refusal)
    expect(await host.ensure('s1').catch((error: unknown) => error)).toMatchObject(refusal)
    expect(await Array.fromAsync(host.provider.sandboxes.list())).toEqual([])
  })
})

/** Keeps a stop waiting for its grace: no exec, so it makes the sandbox not busy, and TERM does not end it. */
const STUBBORN = `setsid sh -c 'trap "" TERM; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &`

describe('a use beside an end', () => {
  test('[C-53] an exec that comes while its sandbox stops waits for the stop and wakes it', async () => {
    const { host } = await startHost()
    await using _ = host
    const sandbox = await host.ensure('s1')
    await run(sandbox, STUBBORN)
    const stopped = host.manager.suspend(sandbox.id, 'stop')
    // The stop has begun, and waits for what does not end.
    await setImmediate()
    await sandbox.ready(AbortSignal.timeout(60_000))
    expect(await run(sandbox, 'echo up')).toMatchObject({ stdout: 'up\n', code: 0 })
    await stopped
    expect(sandbox.state).toBe('running')
  })

  test('[C-28] an exec that comes while its session ends is told that end', async () => {
    const { host } = await startHost()
    await using _ = host
    const sandbox = await host.ensure('s1', { end_grace_seconds: 0.5 })
    await run(sandbox, STUBBORN)
    const ended = host.manager.destroy(sandbox.id, 'lease')
    const refused = sandbox.ready(AbortSignal.timeout(60_000)).catch((error: unknown) => error)
    expect(await refused).toMatchObject({ code: 'SESSION_EXPIRED', details: { reason: 'lease' } })
    await ended
  })
})
