import { describe, expect, test } from 'vitest'
import { until } from '../../apps/agent/test/support/processes.ts'
import { type SdkSession, startSdkSession } from './support/sdk-session.ts'

// A network that drops packets: nobody is told, and nothing comes any more. Every case waits for 10 or 20 s, so they run at once.

/** Runs for as long as `go` is missing, and says in `ran` how often it was begun. */
const COMMAND = 'echo begun >> ran; while [ ! -e go ]; do sleep 0.05; done; cat ran; exit 3'

/** Resolves when the sandbox runs it, which is asked on a connection of the test's own. */
const runs = ({ plane }: SdkSession): Promise<void> => until('the command runs', async () => (await plane.download('ran')).ok)

describe.concurrent('packets vanish under an exec', () => {
  for (const way of ['direct', 'relay'] as const) {
    test(`${way}: the connection is dead, and a new one is not: it is asked for by its id, and runs once`, async () => {
      await using on = await startSdkSession(way)
      const result = on.session.exec(COMMAND)
      await runs(on)
      on.proxy.silence()
      await on.plane.upload('go', '')
      expect(await result).toMatchObject({ exitCode: 3, stdout: 'begun\n' })
      expect([on.session.mode, on.asked('POST /exec')]).toEqual([way, 2])
    }, 180_000)

    test(`${way}: nothing gets through: CONNECTION_FAILED`, async () => {
      await using on = await startSdkSession(way)
      const result = on.session.exec(COMMAND).catch((error: unknown) => error)
      await runs(on)
      on.proxy.blackhole()
      expect(await result).toMatchObject({
        code: 'CONNECTION_FAILED',
        name: 'SilenceError',
        message: expect.stringMatching(/no sign of life for \d+ s/),
      })
      expect(on.asked('POST /exec')).toBe(2)
    }, 180_000)

    test(`${way}: a command is silent for longer than that, and nothing is asked for twice`, async () => {
      await using on = await startSdkSession(way)
      expect(await on.session.exec('sleep 14; echo done')).toMatchObject({ stdout: 'done\n' })
      expect(on.asked('POST /exec')).toBe(1)
    }, 180_000)
  }

  test('direct: nothing gets through: it goes on through the relay, and runs once', async () => {
    await using on = await startSdkSession('direct', { fallback: true })
    const result = on.session.exec(COMMAND)
    await runs(on)
    on.proxy.blackhole()
    await on.plane.upload('go', '')
    expect(await result).toMatchObject({ exitCode: 3, stdout: 'begun\n' })
    expect(on.session.mode).toBe('relay')
  }, 180_000)

  test('from the start: it goes through the relay', async () => {
    await using on = await startSdkSession('direct', { fallback: true })
    on.proxy.blackhole()
    expect(await on.session.exec('echo here')).toMatchObject({ exitCode: 0, stdout: 'here\n' })
    expect(on.session.mode).toBe('relay')
  }, 180_000)
})

describe.concurrent('packets vanish under a stream', () => {
  for (const way of ['direct', 'relay'] as const) {
    test(`${way}: a quiet one is joined again, with the next byte`, async () => {
      await using on = await startSdkSession(way)
      const run = await on.session.exec.start('echo one; read line; echo "$line"; exit 4')
      await run.outputReaches('one\n'.length)
      on.proxy.silence()
      await run.stdin.write('two\n')
      expect(await run.text()).toBe('one\ntwo\n')
      expect(await run.exit).toMatchObject({ exitCode: 4 })
    }, 180_000)
  }

  test('a shell goes on through the relay', async () => {
    await using on = await startSdkSession('direct', { fallback: true })
    const { session, proxy } = on
    const shell = await session.shell({ argv: ['sh', '-c', 'echo one; read line; echo "got $line"; exit 4'] })
    proxy.blackhole()
    await shell.write('two\n')
    expect(await shell.output.text()).toContain('got two')
    expect(await shell.exit).toMatchObject({ exitCode: 4 })
    expect(session.mode).toBe('relay')
  }, 180_000)
})
