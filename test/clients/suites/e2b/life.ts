import { connect } from '@boxoffice/client'
import { Sandbox, SandboxNotFoundError } from 'e2b'
import { expect, test } from 'vitest'
import { API_KEY } from '../../../e2e/support/stack.ts'
import { programsOf, runProgram } from '../../support/page-programs.ts'
import type { E2bStand } from './stand.ts'

/** Sandboxes of E2B's SDK, and what is refused, on every engine. */
export const lifeCases = (stand: E2bStand): void => {
  test('a sandbox is paused, resumed and killed', async () => {
    const sandbox = await Sandbox.create({ ...stand.at(), timeoutMs: 600_000, metadata: { purpose: 'pause' } })
    expect(sandbox.sandboxId).toMatch(/^[a-z0-9]{20}$/)
    await sandbox.commands.run('echo kept > kept.txt')
    const listing = Sandbox.list({ ...stand.at(), query: { metadata: { purpose: 'pause' } } })
    expect((await listing.nextItems()).map(({ sandboxId, state }) => [sandboxId, state])).toEqual([[sandbox.sandboxId, 'running']])
    expect(await sandbox.isRunning()).toBe(true)
    expect(await sandbox.pause()).toBe(true)
    expect(await sandbox.pause()).toBe(false)
    expect(await sandbox.isRunning()).toBe(false)
    await expect(sandbox.commands.run('true')).rejects.toBeInstanceOf(Error)
    expect((await Sandbox.getInfo(sandbox.sandboxId, stand.at())).state).toBe('paused')
    const again = await Sandbox.connect(sandbox.sandboxId, stand.at())
    expect(await again.files.read('kept.txt')).toBe('kept\n')
    // The token of before is as good as the new one.
    expect(await sandbox.isRunning()).toBe(true)
    expect(await sandbox.kill()).toBe(true)
    expect(await sandbox.kill()).toBe(false)
    expect(await again.isRunning()).toBe(false)
    await expect(Sandbox.connect(sandbox.sandboxId, stand.at())).rejects.toBeInstanceOf(SandboxNotFoundError)
    await expect(again.commands.run('true')).rejects.toBeInstanceOf(SandboxNotFoundError)
  })
}

/** Sandboxes of E2B's SDK, and what is refused. */
export const moreLifeCases = (stand: E2bStand): void => {
  test('a sandbox ends after its timeout, and moves it', async () => {
    const short = await Sandbox.create({ ...stand.at(), timeoutMs: 2000 })
    const kept = await Sandbox.create({ ...stand.at(), timeoutMs: 2000, lifecycle: { onTimeout: 'pause' } })
    const long = await Sandbox.create({ ...stand.at(), timeoutMs: 60_000 })
    await long.setTimeout(600_000)
    expect(Number((await Sandbox.getInfo(long.sandboxId, stand.at())).endAt)).toBeGreaterThan(Date.now() + 120_000)
    await expect.poll(() => short.isRunning()).toBe(false)
    await expect.poll(async () => (await Sandbox.getInfo(kept.sandboxId, stand.at())).state).toBe('paused')
    await expect(Sandbox.getInfo(short.sandboxId, stand.at())).rejects.toBeInstanceOf(SandboxNotFoundError)
    expect(await long.isRunning()).toBe(true)
    await Sandbox.connect(kept.sandboxId, { ...stand.at(), timeoutMs: 600_000 })
    expect(await kept.isRunning()).toBe(true)
    for (const sandbox of [kept, long]) await sandbox.kill()
  })

  test('sandboxes are listed in pages', async () => {
    const made = await Promise.all([1, 2, 3].map(() => Sandbox.create({ ...stand.at(), metadata: { purpose: 'pages' } })))
    const listing = Sandbox.list({ ...stand.at(), limit: 2, query: { metadata: { purpose: 'pages' } } })
    const found: string[] = []
    while (listing.hasNext) found.push(...(await listing.nextItems()).map(({ sandboxId }) => sandboxId))
    expect(found.toSorted()).toEqual(made.map(({ sandboxId }) => sandboxId).toSorted())
    for (const sandbox of made) await sandbox.kill()
  })

  test('a sandbox shares the session of a thread with other clients', async () => {
    const session = await connect(stand.stack.brokerUrl, { apiKey: API_KEY }).session('shared-with-e2b')
    await session.files.upload('from-boxoffice.txt', 'here\n')
    const sandbox = await Sandbox.create({ ...stand.at(), metadata: { thread_id: 'shared-with-e2b' } })
    expect(await sandbox.files.read('from-boxoffice.txt')).toBe('here\n')
    expect((await Sandbox.create({ ...stand.at(), metadata: { thread_id: 'shared-with-e2b' } })).sandboxId).toBe(sandbox.sandboxId)
    await sandbox.files.write('from-e2b.txt', 'there\n')
    expect((await session.exec('cat from-e2b.txt')).stdout).toBe('there\n')
    await sandbox.kill()
  })

  test('the environment of a sandbox is that of its commands', async () => {
    const envs = { SECRET: 'kept-secret', BOTH: 'sandbox' }
    const sandbox = await Sandbox.create({ ...stand.at(), envs })
    const shown = 'echo "$SECRET $BOTH"'
    expect((await sandbox.commands.run(shown, { envs: { BOTH: 'own' } })).stdout).toBe('kept-secret own\n')
    const again = await Sandbox.connect(sandbox.sandboxId, stand.at())
    expect((await again.commands.run(shown)).stdout).toBe('kept-secret sandbox\n')
    expect(JSON.stringify(await Sandbox.getInfo(sandbox.sandboxId, stand.at()))).not.toContain('kept-secret')
    await expect(Sandbox.create({ ...stand.at(), envs: { 'A=B': 'c' } })).rejects.toThrow(/envVars/)
    await sandbox.kill()
  })

  test('what is not served is refused by name', async () => {
    const refused = async (call: Promise<unknown>, message: RegExp) => expect(call).rejects.toThrow(message)
    await refused(Sandbox.create({ ...stand.at(), network: { denyOut: ['0.0.0.0/0'] } }), /network rules/)
    await refused(Sandbox.create('unknown-template', stand.at()), /no template "unknown-template"/)
    await refused(stand.shared.commands.run('true', { user: 'root' }), /user "root"/)
    await refused(stand.shared.getMetrics(), /metrics/)
    await refused(stand.shared.createSnapshot(), /snapshots/)
    await refused(Sandbox.fork(stand.shared.sandboxId, stand.at()), /fork/)
    await refused(stand.shared.updateNetwork({}), /network rules/)
    await refused(stand.shared.files.write('a.txt', 'a', { metadata: { a: 'b' } }), /metadata of files/)
    const watch = stand.shared.files.watchDir('.', () => {}, { includeEntry: true })
    await refused(watch, /includeEntry/)
    const signed = await fetch(await stand.shared.downloadUrl('a.txt'))
    expect([signed.status, await signed.json()]).toEqual([501, { code: 'unimplemented', message: expect.stringMatching(/signed URLs/) }])
    const upload = await stand.shared.uploadUrl('a.txt', { useSignatureExpiration: 60 })
    expect((await fetch(upload, { method: 'POST', body: 'text' })).status).toBe(501)
  })

  test('the program of the page runs', async () => {
    const [program] = programsOf('e2b.md')
    expect(await runProgram(program ?? '', stand.stack)).toBe('hello from a file\nLinux\n\n')
  })
}
