import { expect, test } from 'vitest'
import { startTestBroker } from '../support/test-broker.ts'

test('[C-24] the reaper leaves a session alone whose row this broker is writing: one create each', async () => {
  const broker = await startTestBroker()
  try {
    const agent = await broker.startAgent()
    let over = false
    const reaping = (async () => {
      while (!over) await broker.broker.reap()
    })()
    const made = await Promise.all(Array.from({ length: 64 }, (_, i) => broker.ensure(`t${i}`))).finally(() => {
      over = true
    })
    await reaping
    expect(new Set(made.map(({ session_id }) => session_id)).size).toBe(64)
    expect(agent.calls.filter((call) => call.startsWith('PUT'))).toHaveLength(64)
    const taken = await broker.get<{ entries: unknown[] }>('/v1/audit?event=sandbox.session.takeover')
    expect(taken.body.entries).toEqual([])
  } finally {
    await broker.stop()
  }
})
