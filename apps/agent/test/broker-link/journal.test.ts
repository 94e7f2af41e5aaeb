import { JOURNAL_BATCH, type JournalFact } from '@boxoffice/protocol'
import { Registry } from 'prom-client'
import { describe, expect, test } from 'vitest'
import { createJournal } from '../../src/broker-link/journal.ts'

const about = { sessionId: 'ssn_1', sandboxId: 'sb_1' }
const wake: JournalFact = { type: 'wake', data: { from: 'freeze' } }
const open: JournalFact = {
  type: 'dataplane.open',
  data: { route: 'exec', ip: null, request_id: 'r', sub: 's', jti: 'j', token_hash: null, transport: 'http' },
}
const dropped = async (metrics: Registry) => (await metrics.metrics()).match(/^boxoffice_agent_journal_dropped_total\{.*$/gm) ?? []

describe('the journal', () => {
  test('keeps what is not acknowledged, in its order and with its age', () => {
    let now = 1000
    const journal = createJournal(new Registry(), () => now)
    journal.write(about, wake)
    journal.write(about, open)
    journal.write({ sessionId: null, sandboxId: null }, wake, 400)
    now = 1500
    expect(journal.batch()).toMatchObject([
      { seq: 1, age_ms: 500, type: 'wake', session_id: 'ssn_1', sandbox_id: 'sb_1', data: { from: 'freeze' } },
      { seq: 2, age_ms: 500, type: 'dataplane.open' },
      { seq: 3, age_ms: 900, session_id: null },
    ])
    journal.acknowledge(2)
    expect(journal.batch().map(({ seq }) => seq)).toEqual([3])
    journal.acknowledge(2) // an answer that came late
    expect(journal.isEmpty).toBe(false)
    journal.acknowledge(3)
    expect([journal.isEmpty, journal.batch()]).toEqual([true, []])
  })

  test('is bounded; accesses push out no ends of processes, and what is lost is counted', async () => {
    const metrics = new Registry()
    const journal = createJournal(metrics)
    journal.write(about, wake)
    for (let i = 0; i < 1500; i++) journal.write(about, open)
    expect(journal.batch()[0]).toMatchObject({ seq: 1, type: 'wake' })
    expect(journal.batch()[1]).toMatchObject({ seq: 502, type: 'dataplane.open' })
    expect(await dropped(metrics)).toEqual(['boxoffice_agent_journal_dropped_total{reason="full"} 500'])
    for (let i = 0; i < 6000; i++) journal.write(about, wake)
    expect(journal.batch()).toHaveLength(JOURNAL_BATCH)
    let told = 0
    for (let batch = journal.batch(); batch.length > 0; batch = journal.batch()) {
      const seqs = batch.map(({ seq }) => seq)
      expect(seqs).toEqual(seqs.toSorted((a, b) => a - b))
      told += batch.length
      journal.acknowledge(seqs.at(-1) ?? 0)
    }
    expect(told).toBe(1000 + 5000)
  })

  test('says at once that something has happened, and not that somebody came', () => {
    const journal = createJournal(new Registry())
    let urgent = 0
    journal.onUrgent(() => urgent++)
    journal.write(about, open)
    expect(urgent).toBe(0)
    journal.write(about, wake)
    expect(urgent).toBe(1)
  })
})
