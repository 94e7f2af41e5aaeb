import { expect, test } from 'vitest'
import { startSdkSession } from './support/sdk-session.ts'

for (const way of ['direct', 'relay'] as const) {
  test(`${way}: commands are listed, read and ended by their ids`, async () => {
    await using on = await startSdkSession(way)
    const { exec } = on.session
    const run = await exec.start('echo begun; echo bad >&2; exec sleep 600', { execId: 'long' })
    await run.outputReaches(6)
    await exec('exit 3', { execId: 'short' })
    expect((await exec.list()).map(({ execId, state, exitCode }) => [execId, state, exitCode]).sort()).toEqual([
      ['long', 'running', null],
      ['short', 'exited', 3],
    ])
    expect(await exec.list({ state: 'running' })).toMatchObject([
      { execId: 'long', kind: 'exec', attached: 1, endedAt: null, startedAt: expect.any(Date) },
    ])

    expect(await exec.get('long')).toMatchObject({ state: 'running', result: undefined })
    expect(await exec.get('short')).toMatchObject({ state: 'exited', reason: 'exited', result: { exitCode: 3, execId: 'short' } })
    await expect(exec.get('none')).rejects.toMatchObject({ code: 'EXEC_NOT_FOUND', status: 404 })

    const output = await exec.output('long', { offset: 1, limit: 3 })
    expect(output).toMatchObject({ offset: 1, nextOffset: 4, oldestOffset: 0, ended: false })
    expect(new TextDecoder().decode(output.bytes)).toBe('egu')
    const waited = await exec.output('long', { stream: 'stderr', waitSeconds: 30 })
    expect(new TextDecoder().decode(waited.bytes)).toBe('bad\n')

    expect(await exec.kill('long')).toBe(true)
    expect(await run.exit).toMatchObject({ signal: 'SIGTERM', exitCode: 143 })
    expect([await exec.kill('long'), await exec.signal('short', 'INT')]).toEqual([false, false])
    await expect(exec.kill('none')).rejects.toMatchObject({ code: 'EXEC_NOT_FOUND' })
  })

  test(`${way}: several files go up and come down in one call, and one that fails does not end the others`, async () => {
    await using on = await startSdkSession(way)
    const { files } = on.session
    const names = Array.from({ length: 30 }, (_, at) => `many/${at}`)
    const up = await files.uploadMany(names.map((name) => [name, `of ${name}`]))
    expect(up.map(({ path, ok }) => [path, ok])).toEqual(names.map((name) => [name, true]))
    expect(await files.uploadMany({ '../out': 'x', 'many/1/below': 'x', fine: new Uint8Array([0, 255]) })).toMatchObject([
      { path: '../out', ok: false, error: { code: 'INVALID_PATH' } },
      { path: 'many/1/below', ok: false },
      { path: 'fine', ok: true, value: { path: 'fine', size: 2, created: true } },
    ])

    const down = await files.downloadMany(['fine', 'missing', ...names])
    expect(down.slice(0, 2)).toMatchObject([
      { path: 'fine', ok: true, value: new Uint8Array([0, 255]) },
      { path: 'missing', ok: false, error: { code: 'FILE_NOT_FOUND' } },
    ])
    expect(down.slice(2).map((one) => one.ok && new TextDecoder().decode(one.value))).toEqual(names.map((name) => `of ${name}`))
    await expect(files.downloadMany(['fine'], { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough')
  })
}

test('a command that ignores TERM gets KILL after its grace, and at once without one', async () => {
  await using on = await startSdkSession('direct')
  const ignoring = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
  for (const graceSeconds of [undefined, 0]) {
    const run = await on.session.exec.start(ignoring)
    await run.outputReaches(6)
    expect(await on.session.exec.kill(run.execId, { graceSeconds })).toBe(true)
    expect(await run.exit).toMatchObject({ signal: 'SIGKILL' })
  }
})
