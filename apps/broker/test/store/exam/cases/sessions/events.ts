import { KEPT_EVENTS } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { IDEMPOTENCY_MS } from '../../../../../src/domain/idempotency.ts'
import type { Stores } from '../../exam.ts'
import { active, after, audited, change, ended, events, provisioning, RELEASED, read, times, together, told } from '../../parts.ts'

export function eventCases(at: Stores): void {
  test('events have ids from 1, are read after an id, oldest first, as many as are wanted', async () => {
    const { id } = await provisioning(at.one)
    expect(await at.one.events.last(id)).toBe(0)
    expect(await at.one.events.after(id, 0, 10)).toEqual([])
    await change(at.one, id, { type: 'taken_over', fence: 1, brokerId: 'b', agentId: 'a' }, { events: [told(1, 10), told(2, 20)] })
    await change(at.other, id, { type: 'taken_over', fence: 2, brokerId: 'c', agentId: 'a' }, { events: [told(3, 15)] })
    const rows = await at.one.events.after(id, 1, 10)
    expect(rows.map((row) => [row.id, row.ts, row.type])).toEqual([
      [2, 20, 'lease'],
      [3, 15, 'lease'],
    ])
    expect(JSON.parse(rows[0]?.data ?? '')).toEqual(told(2).data)
    expect((await at.other.events.after(id, 0, 2)).map((row) => row.id)).toEqual([1, 2])
    expect(await at.other.events.last(id)).toBe(3)
  })

  test('what an event tells is kept to the letter', async () => {
    const { id } = await active(at.one)
    const data = { exec_id: 'nul \0 half \ud800 票 \'"\\', kind: 'exec' } as never
    await change(at.one, id, { type: 'touched' }, { events: [{ ts: 1, type: 'exec.exit', data }] })
    expect(JSON.parse((await at.other.events.after(id, 0, 1))[0]?.data ?? '')).toEqual(data)
  })

  test('a session that was written for twice in one change has both', async () => {
    const { id } = await active(at.one)
    await change(at.one, id, { type: 'touched' }, { events: [told(1)] })
    await at.one.journal.accept(id, 'i', [{ seq: 1, sessionId: id, recovered: false, events: [told(2)], audit: [] }], Date.now())
    await at.other.journal.accept(
      id,
      'i',
      [2, 3].map((seq) => ({ seq, sessionId: id, recovered: false, events: [told(seq + 1)], audit: [] })),
      0,
    )
    expect(await events(at.one, id)).toMatchObject({ ids: [1, 2, 3, 4], told: [1, 2, 3, 4] })
  })

  test('the last thousand are kept, and ids go on', async () => {
    const { id } = await active(at.one)
    const all = times(KEPT_EVENTS + 5).map((n) => told(n))
    await change(at.one, id, { type: 'touched' }, { events: all.slice(0, 900) })
    await change(at.other, id, { type: 'touched' }, { events: all.slice(900) })
    const kept = await events(at.one, id)
    expect(kept.ids).toEqual(times(KEPT_EVENTS).map((n) => n + 6))
    expect(kept.told).toEqual(times(KEPT_EVENTS).map((n) => n + 5))
    expect(await at.one.events.last(id)).toBe(KEPT_EVENTS + 5)
  })

  test('saves and journals at once number the events of each session without a gap', async () => {
    const sessions = await Promise.all(times(4).map(() => active(at.one)))
    const stored = await together(at, 48, async (store, n) => {
      const { id } = sessions[n % 4] ?? expect.fail()
      if (n % 3 === 0)
        return store.journal.accept(id, `i${n}`, [{ seq: 1, sessionId: id, recovered: false, events: [told(n)], audit: [] }], 0)
      const before = await read(store, id)
      return store.sessions.save(before, after(before, { type: 'touched' }), { events: [told(n)], audit: [audited(id)] })
    })
    expect(stored).not.toContain(false)
    for (const { id } of sessions) {
      const { ids, told: numbers } = await events(at.other, id)
      expect(ids).toEqual(times(12).map((n) => n + 1))
      expect(new Set(numbers).size).toBe(12)
    }
  })

  test('events go with the session when it is purged, and not before', async () => {
    const session = await ended(at.one)
    const next = await active(at.one)
    for (const { id } of [session, next])
      await at.one.journal.accept(id, 'i', [{ seq: 1, sessionId: id, recovered: false, events: [told(1)], audit: [] }], 0)
    await change(at.one, next.id, RELEASED, { events: [told(2)] })
    expect((await events(at.one, next.id)).ids).toEqual([1, 2])
    expect(await at.other.sessions.purge(Date.now() + IDEMPOTENCY_MS, 100)).toBe(2)
    expect(await at.one.sessions.byId(next.id)).toBeUndefined()
    expect((await events(at.one, next.id)).ids).toEqual([])
    expect(await at.one.events.last(next.id)).toBe(0)
  })
}
