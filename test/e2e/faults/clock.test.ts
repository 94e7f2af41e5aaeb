import { expect, test } from 'vitest'
import { eventually } from '../../../apps/agent/test/support/eventually.ts'
import { startTestBroker } from '../../../apps/broker/test/support/test-broker.ts'
import { startAgent } from '../support/started-agent.ts'

/** Longer than a control token lives, and than agents may be silent. */
const AHEAD_MS = 1_200_000

test('[C-77, C-79] a broker whose clock was ahead and comes back still makes sandboxes', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker({ agentHeartbeat: 0.2 })
  parts.defer(() => broker.stop())
  parts.use(await startAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken }))
  const statusOf = async (thread: string): Promise<number> => (await broker.negotiate({ thread_id: thread, mode: 'ensure' })).status
  // The agent hears of the broker's new time with the answer to its next report; until then it refuses.
  const works = (thread: string) => eventually(async () => expect(await statusOf(thread)).toBe(200))

  await works('before')
  broker.setClock(AHEAD_MS)
  await broker.broker.reap()
  await works('ahead')
  broker.setClock(0)
  for (const thread of ['back-1', 'back-2', 'back-3']) await works(thread)
  await broker.broker.reap()
  for (const thread of ['before', 'back-1']) expect(await statusOf(thread)).toBe(200)
})
