import { expect, test } from 'vitest'
import { startSdkSession } from './support/sdk-session.ts'

for (const way of ['direct', 'relay'] as const) {
  test(`${way}: callbacks are given all output before the exit, over connections that break`, async () => {
    await using on = await startSdkSession(way)
    const numbers = (from: number, to: number): string => `${Array.from({ length: to - from + 1 }, (_, at) => from + at).join('\n')}\n`
    let out = ''
    let err = ''
    const run = await on.session.exec.start('seq 1 200000; seq 200001 400000 >&2; exit 3', {
      async onStdout(text) {
        // The process waits for a reader that is slow.
        await new Promise(setImmediate)
        if (out === '') on.proxy.cut()
        out += text
      },
      onStderr(text) {
        err += text
      },
    })
    expect(await run.exit).toMatchObject({ exitCode: 3 })
    expect([out === numbers(1, 200_000), err === numbers(200_001, 400_000)]).toEqual([true, true])
  })

  test(`${way}: stdout is read line by line, and stderr holds nothing up`, async () => {
    await using on = await startSdkSession(way)
    const run = await on.session.exec.start('seq 1 300000 >&2; seq 1 50000; printf end')
    const lines = await Array.fromAsync(run.lines())
    expect([lines.length, lines[0], lines[49_999], lines[50_000]]).toEqual([50_001, '1', '50000', 'end'])
    expect(await run.exit).toMatchObject({ exitCode: 0 })
  })
}

for (const way of ['direct', 'relay'] as const) {
  test(`${way}: exec with callbacks gives each byte once and the result, over connections that break, and takes its input`, async () => {
    await using on = await startSdkSession(way)
    const input = `${'äö€'.repeat(200_000)}\n`
    const seen = { out: '', err: '' }
    const options = {
      stdin: input,
      execId: 'with-callbacks',
      maxOutputBytes: 4_000_000,
      async onStdout(text: string) {
        await new Promise(setImmediate)
        if (seen.out === '') on.proxy.cut()
        seen.out += text
      },
      onStderr(text: string) {
        if (seen.err === '') on.proxy.cut()
        seen.err += text
      },
    }
    const result = await on.session.exec('cat; seq 1 200000 >&2; echo run >> runs; exit 3', options)
    expect([seen.out === input, seen.err === result.stderr, result.stdout === input]).toEqual([true, true, true])
    expect(result).toMatchObject({ exitCode: 3, stdoutTruncated: false, stderrTruncated: false, lossy: false, timeoutSeconds: 60 })
    // Asked for once more by its id it does not run again: its end comes, with what is still kept.
    seen.out = seen.err = 'x'
    const again = await on.session.exec('cat; seq 1 200000 >&2; echo run >> runs; exit 3', options)
    expect(again).toMatchObject({ exitCode: 3, stderrTruncated: true, execId: 'with-callbacks' })
    expect(result.stderr.endsWith(again.stderr.slice(-1000))).toBe(true)
    expect(await on.session.files.text('runs')).toBe('run\n')
  })
}

test('what a callback of exec throws ends the command and is what exec rejects with', async () => {
  await using on = await startSdkSession('direct')
  let calls = 0
  const running = on.session.exec('while :; do echo line; echo line >&2; done', {
    execId: 'thrown',
    onStdout() {
      calls++
      throw new Error('from the callback')
    },
  })
  await expect(running).rejects.toThrow('from the callback')
  await expect.poll(async () => (await on.session.exec.get('thrown')).state, { timeout: 60_000 }).toBe('exited')
  expect(calls).toBe(1)
  const none = await on.session.exec(['/no/such/program'], { onStderr: (text) => expect(text).not.toBe('') })
  expect(none).toMatchObject({ exitCode: 127, reason: 'spawn_failed', stderr: expect.stringContaining('\n') })
})

test('an attached client has callbacks as well, and a stream without one is dropped', async () => {
  await using on = await startSdkSession('direct')
  const first = await on.session.exec.start('echo begun; seq 1 300000 >&2; cat; echo ended')
  await first.outputReaches(6)
  let text = ''
  const second = await on.session.exec.attach(first.execId, {
    onStdout(more) {
      text += more
    },
  })
  await second.stdin.write('input\n')
  await second.stdin.end()
  expect(await second.exit).toMatchObject({ exitCode: 0 })
  expect(text).toBe('begun\ninput\nended\n')
  await expect(first.exit).rejects.toMatchObject({ code: 'TAKEN_OVER' })
})

test('what a callback throws is what the exit rejects with, and the process goes on', async () => {
  await using on = await startSdkSession('direct')
  const run = await on.session.exec.start('seq 1 300000; echo done > done', {
    onStdout() {
      throw new Error('from the callback')
    },
  })
  await expect(run.exit).rejects.toThrow('from the callback')
  const same = await on.session.exec.attach(run.execId, { mode: 'mirror' })
  expect(await same.exit).toMatchObject({ exitCode: 0 })
  expect(await on.session.files.text('done')).toBe('done\n')
})
