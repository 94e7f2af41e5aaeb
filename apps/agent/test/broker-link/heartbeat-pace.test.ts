import type { AgentInstructions } from '@boxoffice/protocol'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import type { BrokerClient } from '../../src/broker-link/broker-client.ts'
import { type BrokerLink, createBrokerLink, type Extent } from '../../src/broker-link/broker-link.ts'
import { createJournal } from '../../src/broker-link/journal.ts'
import { silent } from '../host/support/host.ts'

const SANDBOXES = 100
/** 5 ms for each sandbox. */
const COMPLETE_EVERY_MS = 5 * SANDBOXES

type Told = {
  /** What the broker tells with each answer. */
  instructions: Partial<AgentInstructions>
  /** What it tells beside with the answer to a report. */
  answer: (report: { partial: boolean }) => Partial<AgentInstructions>
  onReport?: (extent: Extent) => void
  onAnswered?: (partial: boolean) => void
  onRefused: (error: Error) => void
}

/** The link of an agent with `SANDBOXES` sandboxes to a broker that answers so. */
const linkTo = ({ instructions, answer, onReport, onAnswered, onRefused }: Told): BrokerLink => {
  const told: AgentInstructions = {
    ...{ decisions: [], revocations: { sessions: [], tokens: [] }, pools: [], heartbeat_seconds: 1 },
    ...instructions,
  }
  const registered = { agent_id: 'agt_1', agent_token: 't', issuer: 'http://broker', jwks: { keys: [] }, clock_drift_ms: 0 }
  const broker: BrokerClient = {
    register: async () => ({ ...told, ...registered }),
    heartbeat: async (_, report) => ({ ...told, ...answer(report) }),
    secrets: async () => ({ secrets: {} }),
    jwks: async () => ({ keys: [] }),
    preview: async () => null,
    enterPreview: async () => null,
  }
  const report = { instance_id: 'i', provider: { name: 'local', available: true, reason: null }, sandboxes: [] }
  return createBrokerLink({
    broker,
    inventory: () => ({ ...report, install_id: 'n', clock: '' }) as never,
    count: () => SANDBOXES,
    heartbeat: (extent, journal) => {
      onReport?.(extent)
      return { ...report, partial: extent !== 'all', journal } as never
    },
    onAnswered: ({ partial }) => onAnswered?.(partial),
    journal: createJournal(new Registry()),
    onRegistered: async () => {},
    onInstructions: async () => {},
    onRefused,
    log: silent,
  })
}

test('with many sandboxes all are reported at a slower pace, and the reports between them are partial', async () => {
  const reports: { partial: boolean; at: number }[] = []
  const enough = Promise.withResolvers<void>()
  const link = linkTo({
    instructions: { heartbeat_seconds: 0.02 },
    answer({ partial }) {
      reports.push({ partial, at: performance.now() })
      if (reports.filter((report) => !report.partial).length === 3) enough.resolve()
      return {}
    },
    onRefused: enough.reject,
  })
  await link.start()
  await enough.promise
  await link.stop()
  const complete = reports.filter(({ partial }) => !partial)
  // A timer and the clock differ by up to a millisecond.
  // The broker link looks at the clock before the test does, and a busy machine may stand still between the two.
  expect((complete.at(-1)?.at ?? 0) - (complete[0]?.at ?? 0)).toBeGreaterThan(COMPLETE_EVERY_MS)
  expect(reports.some(({ partial }) => partial)).toBe(true)
})

test('a broker that knows deltas is told what has changed, and all sandboxes in the report after it has asked for them', async () => {
  const extents: Extent[] = []
  const answered: boolean[] = []
  const enough = Promise.withResolvers<void>()
  const link = linkTo({
    instructions: { heartbeat_seconds: 0.001, deltas: true },
    answer() {
      if (extents.length === 4) throw new Error('lost on the way')
      if (extents.length >= 7) enough.resolve()
      return extents.length === 2 ? { whole: true } : {}
    },
    onReport: (extent) => extents.push(extent),
    onAnswered: (partial) => answered.push(partial),
    onRefused: enough.reject,
  })
  await link.start()
  await enough.promise
  await link.stop()
  expect(extents.slice(0, 6)).toEqual(['changed', 'changed', 'all', 'changed', 'changed', 'changed'])
  // Of the registration first; the fourth report got no answer.
  expect(answered.slice(0, 6)).toEqual([false, true, true, false, true, true])
})

test('a report that has failed comes again soon, whatever the pace is, and the next ones at the pace', async () => {
  let reports = 0
  const again = Promise.withResolvers<void>()
  const link = linkTo({
    instructions: { heartbeat_seconds: 3600, deltas: true },
    answer() {
      if (++reports === 2) again.resolve()
      throw new Error('nobody answers')
    },
    onRefused: again.reject,
  })
  await link.start()
  link.reportNow()
  await again.promise
  await link.stop()
  expect(reports).toBe(2)
})
