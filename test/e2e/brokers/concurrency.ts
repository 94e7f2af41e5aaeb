import { describe, expect, test } from 'vitest'
import { brokerApi, dataplane } from '../support/api.ts'
import { type ProviderName, startStack } from '../support/stack.ts'

/** Two sandboxes for one thread: never. */
export const concurrencySuite = (provider: ProviderName): void => {
  describe(`${provider}: one thread, one sandbox`, () => {
    test.each([2, 3])('[4-15, C-21] 100 parallel ensures through %i broker processes give one session and one sandbox', async (count) => {
      await using stack = await startStack({ provider, brokers: count })
      const brokers = stack.brokerUrls.map((url) => brokerApi(url))
      const grants = await Promise.all(Array.from({ length: 100 }, (_, i) => brokers[i % count]?.ensure('crowd')))
      expect(new Set(grants.map((grant) => grant?.session_id)).size).toBe(1)
      expect(new Set(grants.map((grant) => grant?.sandbox.id)).size).toBe(1)
      const [any] = grants
      if (any === undefined) throw new Error('no grant')
      expect((await dataplane(any, 'POST', '/exec', { command: 'echo one' })).body).toMatchObject({ stdout: 'one\n' })
      const { body } = await brokerApi(stack.brokerUrl).get('/v1/sandbox/sessions')
      expect((body as { sessions: unknown[] }).sessions).toHaveLength(1)
    })

    test('[4-19] a broker that restarts gives the same ids, and the dataplane did not notice', async () => {
      await using stack = await startStack({ provider })
      const before = await brokerApi(stack.brokerUrl).ensure('kept')
      await stack.broker().kill('SIGKILL')
      expect((await dataplane(before, 'POST', '/exec', { command: 'echo still here' })).body).toMatchObject({ stdout: 'still here\n' })
      await stack.startBroker()
      const after = await brokerApi(stack.brokerUrl).ensure('kept')
      expect([after.session_id, after.sandbox.id]).toEqual([before.session_id, before.sandbox.id])
    })
  })
}
