import { expect, test } from 'vitest'
import { startTestBroker } from '../support/test-broker.ts'

const MINUTE = 60_000

test('[C-53] suspends and resumes say how old they are: each later one has a higher revision', async () => {
  const broker = await startTestBroker({ reaperIntervalMs: 3_600_000 })
  const agent = await broker.startAgent({ heartbeat: false })
  await broker.ensure('t')
  const pass = async (ms: number) => {
    for (const sandbox of agent.sandboxes.values()) sandbox.activity.idle_ms += ms
    await broker.advance(ms)
    await broker.broker.reap()
    await broker.broker.settled()
  }
  await pass(15 * MINUTE)
  await pass(60 * MINUTE)
  await broker.ensure('t')
  await broker.broker.settled()
  for (const sandbox of agent.sandboxes.values()) sandbox.activity.idle_ms = 0
  await pass(15 * MINUTE)
  expect(agent.orders.map(({ action, mode }) => [action, mode])).toEqual([
    ['suspend', 'freeze'],
    ['suspend', 'stop'],
    ['resume', undefined],
    ['suspend', 'freeze'],
  ])
  const revisions = agent.orders.map(({ revision }) => revision ?? 0)
  expect(revisions).toEqual([...new Set(revisions)].sort((a, b) => a - b))
  await broker.stop()
})

test('after the database went back, an order that its agent drops as too old is given again above the one that it remembers', async () => {
  const broker = await startTestBroker({ reaperIntervalMs: 3_600_000 })
  const agent = await broker.startAgent({ heartbeat: false })
  await broker.ensure('t')
  let latest = 1000
  agent.hooks.overtaken = ({ revision = 0 }) => {
    if (revision < latest) return { overtaken_by: latest }
    latest = revision
    return {}
  }
  for (const sandbox of agent.sandboxes.values()) sandbox.activity.idle_ms += 15 * MINUTE
  await broker.advance(15 * MINUTE)
  await broker.broker.reap()
  await broker.broker.settled()
  expect(agent.orders.map(({ action, mode }) => [action, mode])).toEqual([
    ['suspend', 'freeze'],
    ['suspend', 'freeze'],
  ])
  expect(agent.orders[1]?.revision).toBe(1001)
  // Those that follow are later by themselves.
  await broker.ensure('t')
  await broker.broker.settled()
  expect(agent.orders).toHaveLength(3)
  expect(agent.orders[2]?.revision).toBeGreaterThan(1001)
  await broker.stop()
})
