import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant } from '../support/api.ts'
import { loseSandbox } from '../support/places/lose-sandbox.ts'
import { MODES, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually, processesWith, processWith } from '../support/traces.ts'

/** What the field's users complain about most: hanging execs, processes that outlive their kill, fabricated exits. */
export const truthSuite = (provider: ProviderName): void => {
  describe.each(MODES)(`%s, ${provider}: the truth about processes`, (mode) => {
    let stack: Stack
    let grant: Grant
    beforeAll(async () => {
      stack = await startStack({ provider, mode })
      grant = await brokerApi(stack.brokerUrl).ensure('truth')
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    test('[4-102, C-65] a timeout of 1 s leaves no process of `sleep & setsid sleep & sleep`', async () => {
      const seconds = 1_000_000 + Math.floor(Math.random() * 1_000_000)
      const start = performance.now()
      const ran = await dataplane(grant, 'POST', '/exec', {
        command: `sleep ${seconds} & setsid sleep ${seconds} & (setsid sh -c 'sleep ${seconds} & sleep ${seconds}' &) ; sleep ${seconds}`,
        timeout_seconds: 1,
      })
      expect(ran.body).toMatchObject({ timed_out: true, exit_code: 124, reason: 'timed_out' })
      expect(performance.now() - start).toBeLessThan(30_000)
      expect(processesWith(`sleep ${seconds}`)).toEqual([])
    })

    test('[C-66] exit does not wait for a background child that holds stdout, and the next exec is not slowed', async () => {
      const start = performance.now()
      const ran = await dataplane(grant, 'POST', '/exec', { command: 'sleep 90 & echo done' })
      expect(ran.body).toMatchObject({ stdout: 'done\n', exit_code: 0, reason: 'exited' })
      expect(performance.now() - start).toBeLessThan(60_000)
      const next = performance.now()
      await dataplane(grant, 'POST', '/exec', { command: 'echo' })
      expect(performance.now() - next).toBeLessThan(30_000)
    })

    test('[4-101] a non-zero exit, a signal and a missing program are results', async () => {
      expect((await dataplane(grant, 'POST', '/exec', { command: 'exit 3' })).body).toMatchObject({
        exit_code: 3,
        signal: null,
        reason: 'exited',
      })
      expect((await dataplane(grant, 'POST', '/exec', { command: 'kill -TERM $$' })).body).toMatchObject({
        exit_code: 143,
        signal: 'SIGTERM',
        reason: 'signaled',
      })
      expect((await dataplane(grant, 'POST', '/exec', { argv: ['no-such-program'] })).body).toMatchObject({
        exit_code: 127,
        reason: 'spawn_failed',
        spawn_error: { kind: 'not_found' },
      })
    })

    test('[exec_id] twenty requests with one id run the command once', async () => {
      const body = { command: 'echo line >> once; sleep 0.2; cat once', exec_id: 'once' }
      const replies = await Promise.all(Array.from({ length: 20 }, () => dataplane(grant, 'POST', '/exec', body)))
      expect(new Set(replies.map((reply) => (reply.body as { stdout: string }).stdout))).toEqual(new Set(['line\n']))
      expect((await dataplane(grant, 'POST', '/exec', { command: 'echo other', exec_id: 'once' })).status).toBe(409)
    })

    test('[exit is never synthesised] a sandbox that dies in mid-exec answers SANDBOX_LOST, and the next ensure gives a new one', async () => {
      const broker = brokerApi(stack.brokerUrl)
      const doomed = await broker.ensure('doomed')
      const seconds = 1_000_000 + Math.floor(Math.random() * 1_000_000)
      const running = dataplane(doomed, 'POST', '/exec', { command: `sleep ${seconds}`, timeout_seconds: 600 })
      loseSandbox(provider, doomed.sandbox.id, await processWith(`sleep ${seconds}`))
      const reply = await running
      expect(reply.status).toBe(503)
      expect(reply.body).toMatchObject({ error: { code: 'SANDBOX_LOST' } })
      expect(reply.text).not.toContain('exit_code":0')
      await eventually('the session has failed', async () =>
        (await broker.get(`/v1/sandbox/sessions/${doomed.session_id}`)).text.includes('"failed"'),
      )
      const again = await broker.ensure('doomed')
      expect(again.session_id).not.toBe(doomed.session_id)
      expect((await dataplane(again, 'POST', '/exec', { command: 'echo alive' })).body).toMatchObject({ stdout: 'alive\n' })
    })
  })
}
