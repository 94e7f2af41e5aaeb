import { type Client, connect } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi } from '../support/api.ts'
import { loseSandbox } from '../support/places/lose-sandbox.ts'
import { API_KEY, MODES, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually, processesWith, processWith } from '../support/traces.ts'

const numbers = (count: number): string => Array.from({ length: count }, (_, i) => `${i + 1}\n`).join('')
/** A number that no other process on this machine has on its command line. */
const mark = (): number => 1_000_000_000 + Math.floor(Math.random() * 1_000_000_000)

/** What users of comparable systems report most, each by its name: none of it happens here. */
export const complaintsSuite = (provider: ProviderName): void => {
  describe.each(MODES)(`%s, ${provider}`, (mode) => {
    let stack: Stack
    let client: Client
    beforeAll(async () => {
      // Timers of seconds, so that what must not happen would happen within the test.
      const impatient = {
        name: 'impatient',
        idle_after_seconds: 0.5,
        idle_timeout_seconds: 1,
        lease_seconds: 1,
        on_lease_expiry: 'terminate',
      }
      stack = await startStack({ provider, mode, config: { profiles: [impatient] } })
      client = connect(stack.brokerUrl, { apiKey: API_KEY })
    })
    afterAll(async () => {
      client?.close()
      await stack?.[Symbol.asyncDispose]()
    })

    test('output lost on reconnect', async () => {
      const session = await client.session('lost-output')
      const run = await session.exec.start('seq 1 400000; exit 5')
      let [text, cuts] = ['', 0]
      const decoder = new TextDecoder()
      for await (const piece of run.stdout) {
        text += decoder.decode(piece, { stream: true })
        if (text.length > (cuts + 1) * 300_000 && cuts++ < 8) stack.cutConnections()
      }
      expect(cuts).toBeGreaterThan(4)
      expect(text === numbers(400_000)).toBe(true)
      expect(await run.exit).toMatchObject({ exitCode: 5, reason: 'exited' })
    })

    test('an exec that hangs for ever', async () => {
      const session = await client.session('hanging')
      // Each of these keeps something open that a naive exec would wait for.
      for (const command of ['sleep 600 & echo done', 'setsid sleep 600 & echo done', '(sleep 600 &) >&2; echo done', 'cat; echo done'])
        expect(await session.exec(command)).toMatchObject({ stdout: 'done\n', exitCode: 0, reason: 'exited' })
      const seconds = mark()
      const late = await session.exec(`trap '' TERM; echo begun; while :; do sleep ${seconds}; done`, { timeoutSeconds: 1 })
      expect(late).toMatchObject({ stdout: 'begun\n', exitCode: 124, timedOut: true })
      expect(processesWith(`sleep ${seconds}`)).toEqual([])
    })

    test('a fabricated exit', async () => {
      const session = await client.session('fabricated')
      const seconds = mark()
      const running = session.exec(`echo begun; sleep ${seconds}`)
      const outcome = running.then(
        (result) => ({ result }),
        (thrown: unknown) => ({ thrown }),
      )
      loseSandbox(provider, session.sandboxId, await processWith(`sleep ${seconds}`))
      expect(await outcome).toMatchObject({ thrown: { code: 'SANDBOX_LOST' } })
      // Nor is a true end ever turned into another one.
      const other = await client.session('truthful')
      expect(await other.exec('kill -SEGV $$')).toMatchObject({ exitCode: 139, signal: 'SIGSEGV', reason: 'signaled' })
      expect(await other.exec('exit 124')).toMatchObject({ exitCode: 124, timedOut: false, reason: 'exited' })
      expect(await other.exec('exit 137')).toMatchObject({ exitCode: 137, signal: null, reason: 'exited' })
    })

    test('two sandboxes for one thread', async () => {
      const sessions = await Promise.all(Array.from({ length: 30 }, () => client.session('crowded')))
      expect(new Set(sessions.map(({ id }) => id)).size).toBe(1)
      expect(new Set(sessions.map(({ sandboxId }) => sandboxId)).size).toBe(1)
      await Promise.all(sessions.map((session, i) => session.exec(`echo ${i} >> crowd`)))
      expect((await sessions[0]?.exec('sort -n crowd'))?.stdout).toBe(`${Array.from({ length: 30 }, (_, i) => i).join('\n')}\n`)
    })

    test('an idle timer that kills a running job', async () => {
      const session = await client.session('busy', { profile: 'impatient' })
      const run = await session.exec.start('for i in 1 2 3 4 5 6; do sleep 1; echo tick $i; done', { detach: true })
      const ticks = await run.text()
      expect(ticks).toBe([1, 2, 3, 4, 5, 6].map((i) => `tick ${i}\n`).join(''))
      expect(await run.exit).toMatchObject({ exitCode: 0, reason: 'exited' })
      // The same timers do end a session in which nothing runs.
      const idle = await client.session('idle', { profile: 'impatient' })
      await eventually('the idle one has ended', async () => {
        const { status } = await brokerApi(stack.brokerUrl).get(`/v1/sandbox/sessions/${idle.id}?token=false`)
        return status === 410
      })
    })

    test('a session that points at a dead sandbox', async () => {
      const session = await client.session('dead')
      const seconds = mark()
      await session.exec.start(`exec sleep ${seconds}`, { detach: true })
      loseSandbox(provider, session.sandboxId, await processWith(`sleep ${seconds}`))
      // Whoever asks next gets one that works, whether or not anybody has noticed yet.
      await eventually('ensure gives another one', async () => (await client.session('dead')).id !== session.id)
      expect((await (await client.session('dead')).exec('echo alive')).stdout).toBe('alive\n')
      const { body } = await brokerApi(stack.brokerUrl).get(`/v1/sandbox/sessions/${session.id}?token=false`)
      expect(body).toMatchObject({ binding: { state: 'failed', reason: expect.any(String) } })
    })
  })
}
