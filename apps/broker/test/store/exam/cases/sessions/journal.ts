import { KEPT_EVENTS } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import type { JournalRecord } from '../../../../../src/store/session-store.ts'
import type { Stores } from '../../exam.ts'
import {
  active,
  after,
  against,
  audited,
  auditOf,
  change,
  ended,
  events,
  fresh,
  LAST,
  RELEASED,
  times,
  together,
  told,
  UNWRITABLE,
} from '../../parts.ts'

const HOUR_MS = 3600_000

/** Entries with these numbers, each with one event and one audit entry. */
const entries = (sessionId: string, seqs: readonly number[], fields: Partial<JournalRecord> = {}): JournalRecord[] =>
  seqs.map((seq) => ({ seq, sessionId, recovered: false, events: [told(seq)], audit: [audited(sessionId, { code: `${seq}` })], ...fields }))

export function journalCases(at: Stores): void {
  const accept = (store: Stores['one'], agent: string, records: readonly JournalRecord[], instance = 'i') =>
    store.journal.accept(agent, instance, records, Date.now())
  const codes = async (sessionId: string) => (await auditOf(at.one, sessionId)).map(({ code }) => Number(code)).reverse()

  test('an entry is stored once per instance and number', async () => {
    const { id, agentId } = await active(at.one, { agentId: fresh('agt') })
    expect(await accept(at.one, agentId, [])).toBe(0)
    expect(await accept(at.one, agentId, entries(id, [1, 2, 3]))).toBe(3)
    expect(await accept(at.other, agentId, entries(id, [2, 3, 5]))).toBe(5)
    expect(await accept(at.one, agentId, entries(id, [4, 5]))).toBe(5)
    expect(await accept(at.one, agentId, [])).toBe(5)
    expect(await events(at.one, id)).toMatchObject({ ids: [1, 2, 3, 4], told: [1, 2, 3, 5] })
    expect(await codes(id)).toEqual([1, 2, 3, 5])
    // Another instance, and another agent, count by themselves.
    expect(await accept(at.other, agentId, entries(id, [1]), 'j')).toBe(1)
    expect(await accept(at.other, fresh('agt'), entries(id, [2]))).toBe(2)
    expect(await accept(at.one, agentId, entries(id, [5]))).toBe(5)
    expect((await events(at.one, id)).told).toEqual([1, 2, 3, 5, 1, 2])
  })

  test('an entry of no session, an unknown or an ended one is recorded, without an event', async () => {
    const { id, agentId } = await ended(at.one, { agentId: fresh('agt') })
    const unknown = fresh('ses')
    const records = [
      ...entries(id, [1]),
      ...entries(unknown, [2]),
      ...entries(unknown, [3], { sessionId: null }),
      ...entries(id, [4], { recovered: true }),
    ]
    expect(await accept(at.one, agentId, records)).toBe(4)
    expect((await events(at.one, id)).ids).toEqual([])
    expect((await events(at.one, unknown)).ids).toEqual([])
    expect(await codes(id)).toEqual([1, 4])
    expect(await codes(unknown)).toEqual([2, 3])
  })

  test('what an earlier instance may have told is stored unless it is there, or is older than what is kept', async () => {
    const { id, agentId } = await active(at.one, { agentId: fresh('agt') })
    const now = Date.now()
    const recovered = { recovered: true }
    await accept(at.one, agentId, entries(id, [1, 2], { events: [told(7, now)] }))
    await accept(at.other, agentId, entries(id, [1], { ...recovered, events: [told(7, now - 299_000)] }), 'j')
    expect((await events(at.one, id)).told).toEqual([7, 7])
    await accept(at.one, agentId, entries(id, [2], { ...recovered, events: [told(8, now)] }), 'j')
    await accept(at.one, agentId, entries(id, [3], { ...recovered, events: [told(7, now - 301_000)] }), 'j')
    expect((await events(at.one, id)).told).toEqual([7, 7, 8, 7])
    expect(await codes(id)).toEqual([1, 2, 2, 3])
    await change(at.one, id, { type: 'touched' }, { events: times(KEPT_EVENTS).map((n) => told(n, now)) })
    await accept(at.other, agentId, entries(id, [4], { ...recovered, events: [told(9_999, now - 1)] }), 'j')
    expect(await at.one.events.last(id)).toBe(KEPT_EVENTS + 4)
    expect(await codes(id)).toEqual([1, 2, 2, 3])
  })

  test('the place of an instance is kept for as long as anything of it may be under way', async () => {
    const { id, agentId } = await active(at.one, { agentId: fresh('agt') })
    const now = Date.now()
    await at.one.journal.accept(agentId, 'old', entries(id, [1, 2]), now)
    expect(await at.one.journal.accept(agentId, 'new', entries(id, [1]), now + 23 * HOUR_MS)).toBe(1)
    expect(await at.other.journal.accept(agentId, 'old', entries(id, [2]), now + 23 * HOUR_MS)).toBe(2)
    expect((await events(at.one, id)).told).toEqual([1, 2, 1])
  })

  test('entries that cannot be stored are all undone, and can be told again', async () => {
    const { id, agentId } = await active(at.one, { agentId: fresh('agt') })
    await accept(at.one, agentId, entries(id, [1]))
    await expect(accept(at.one, agentId, [...entries(id, [2]), ...entries(id, [3], { audit: [UNWRITABLE] })])).rejects.toThrow()
    expect(await accept(at.other, agentId, [])).toBe(1)
    expect((await events(at.one, id)).told).toEqual([1])
    expect(await accept(at.other, agentId, entries(id, [2, 3]))).toBe(3)
    expect((await events(at.one, id)).told).toEqual([1, 2, 3])
    expect(await codes(id)).toEqual([1, 2, 3])
  })

  test('16 heartbeats at once that repeat what is not acknowledged: each entry once, in order', async () => {
    const { id, agentId } = await active(at.one, { agentId: fresh('agt') })
    const places = await together(at, 16, (store, n) =>
      accept(
        store,
        agentId,
        entries(
          id,
          times(n + 1).map((seq) => seq + 1),
        ),
      ),
    )
    for (const [n, place] of places.entries()) expect(place).toBeGreaterThan(n)
    const all = times(16).map((n) => n + 1)
    expect(await events(at.one, id)).toMatchObject({ ids: all, told: all })
    expect(await codes(id)).toEqual(all)
    expect(await accept(at.other, agentId, [])).toBe(16)
  })

  test('16 instances at once tell of two sessions each: all is stored', async () => {
    const sessions = await Promise.all([active(at.one), active(at.one)])
    const agentId = fresh('agt')
    await together(at, 16, (store, n) => {
      const [first, second] = n % 4 < 2 ? sessions : sessions.toReversed()
      return accept(store, agentId, [...entries(first?.id ?? '', [1]), ...entries(second?.id ?? '', [2])], `i${n}`)
    })
    for (const { id } of sessions) {
      expect((await events(at.one, id)).ids).toEqual(times(16).map((n) => n + 1))
      expect(await codes(id)).toHaveLength(16)
    }
  })

  test('a journal and an end at once: no event follows the last one, and the entry is recorded in any case', async () => {
    await against(at, async (mine, theirs) => {
      const session = await active(mine, { agentId: fresh('agt') })
      const { id, agentId } = session
      const [isEnded] = await Promise.all([
        mine.sessions.save(session, after(session, RELEASED), { events: [LAST] }),
        accept(theirs, agentId, entries(id, [1])),
      ])
      expect(isEnded).toBe(true)
      const { ids, types } = await events(mine, id)
      expect(types.at(-1)).toBe('released')
      expect(ids).toEqual(times(types.length).map((n) => n + 1))
      expect(await codes(id)).toEqual([1])
    })
  })
}
