import { expect, test } from 'vitest'
import type { Session } from '../../../../../src/domain/session.ts'
import type { Store } from '../../../../../src/store/store.ts'
import type { Stores } from '../../exam.ts'
import { active, against, change, events, fresh, LAST, provisioning, RELEASED, read, roundTrips, together, told } from '../../parts.ts'

const FAR = 8e15

/** A session that has ended, whose last events wait until `until`. */
async function ending(store: Store, until = FAR): Promise<Session> {
  const { id } = await active(store, { agentId: fresh('agt') })
  return change(store, id, RELEASED, { events: [told(100), LAST], eventsWaitUntil: until })
}

export function endingCases(at: Stores): void {
  const accept = (store: Store, { id, agentId }: Session, seqs: number[], instance = 'i') =>
    store.journal.accept(
      agentId,
      instance,
      seqs.map((seq) => ({ seq, sessionId: id, recovered: false, events: [told(seq)], audit: [] })),
      Date.now(),
    )
  const toldOf = async ({ id }: Session): Promise<unknown[]> => {
    const { ids, told, types } = await events(at.one, id)
    return [...told, ...(types.at(-1) === 'released' ? ['released'] : []), ...(ids.at(-1) === ids.length ? [] : ['gap'])]
  }

  test('[2.4] the last events follow what the agent has named as untold', async () => {
    const session = await ending(at.one)
    await at.one.endings.answered(session.id, { instanceId: 'i', seq: 2 })
    await accept(at.other, session, [1])
    expect(await at.other.endings.isPending(session.id)).toBe(true)
    expect(await toldOf(session)).toEqual([1])
    // Another instance's numbers are not meant.
    await accept(at.other, session, [1, 2], 'j')
    expect(await at.one.endings.isPending(session.id)).toBe(true)
    await accept(at.other, session, [2, 3])
    expect(await at.one.endings.isPending(session.id)).toBe(false)
    expect(await toldOf(session)).toEqual([1, 1, 2, 2, 3, 100, 'released'])
    await accept(at.one, session, [4])
    expect(await toldOf(session)).toHaveLength(7)
  })

  test('[2.4] they are there at once where nothing is untold, or all is stored already, or nothing is to be waited for', async () => {
    const silent = await ending(at.one)
    await at.other.endings.answered(silent.id, undefined)
    expect(await toldOf(silent)).toEqual([100, 'released'])
    const stored = await ending(at.one)
    await accept(at.one, stored, [1, 2])
    await at.other.endings.answered(stored.id, { instanceId: 'i', seq: 2 })
    expect(await toldOf(stored)).toEqual([1, 2, 100, 'released'])
    const { id } = await provisioning(at.one)
    const failed = await change(at.one, id, RELEASED, { events: [LAST], eventsWaitUntil: null })
    expect(await at.one.endings.isPending(id)).toBe(false)
    await at.one.endings.answered(id, undefined)
    await at.one.endings.answered(fresh('ses'), { instanceId: 'i', seq: 1 })
    expect(await toldOf(failed)).toEqual(['released'])
  })

  test('[2.4] an acknowledgement meanwhile joins the events that wait', async () => {
    const { id } = await active(at.one, { agentId: fresh('agt') })
    const lost = { type: 'sandbox_lost', reason: 'x' } as const
    const session = await change(at.one, id, lost, { events: [told(100)], eventsWaitUntil: FAR })
    await change(at.other, id, RELEASED, { events: [LAST], eventsWaitUntil: null })
    await accept(at.one, session, [1])
    expect(await toldOf(session)).toEqual([1])
    await at.one.endings.answered(id, undefined)
    expect(await toldOf(session)).toEqual([1, 100, 'released'])
  })

  test('[2.4] what has waited long enough is appended after a gap; the others go on waiting', async () => {
    const [due, early, later] = [await ending(at.one, 1000), await ending(at.one, 1000), await ending(at.one, 1001)]
    await accept(at.one, due, [1])
    await at.one.endings.answered(early.id, { instanceId: 'i', seq: 9 })
    await at.other.endings.finishDue(1000)
    expect(await toldOf(due)).toEqual([1, 100, 'released', 'gap'])
    expect((await events(at.one, due.id)).ids).toEqual([1, 3, 4])
    expect(await toldOf(early)).toEqual([100, 'released', 'gap'])
    expect(await at.one.endings.isPending(due.id)).toBe(false)
    expect(await at.one.endings.isPending(later.id)).toBe(true)
    await at.one.endings.answered(later.id, undefined)
  })

  test('[2.4] when a broker starts, all wait until a later moment at least, and it hears who has not answered', async () => {
    const [first, second, answered] = [await ending(at.one, 10), await ending(at.one), await ending(at.one, 10)]
    await at.one.endings.answered(answered.id, { instanceId: 'i', seq: 1 })
    const unanswered = await at.other.endings.resume(5000)
    expect(unanswered).toEqual(expect.arrayContaining([first.id, second.id]))
    expect(unanswered).not.toContain(answered.id)
    await at.one.endings.finishDue(4999)
    expect(await at.one.endings.isPending(first.id)).toBe(true)
    expect(await at.one.endings.resume(10)).toContain(first.id)
    await at.one.endings.finishDue(5000)
    expect(await Promise.all([first, second, answered].map(({ id }) => at.one.endings.isPending(id)))).toEqual([false, true, false])
  })

  test('[2.4] what waits goes with its session when that is purged', async () => {
    const session = await ending(at.one)
    expect(await at.other.sessions.purge(FAR, 1000)).toBeGreaterThan(0)
    expect(await at.one.endings.isPending(session.id)).toBe(false)
    await at.one.endings.answered(session.id, undefined)
    expect(await events(at.one, session.id)).toMatchObject({ ids: [] })
  })

  test('[2.4] an answer and the journal that it names at once: the session ends once, after what was told', async () => {
    await against(
      at,
      async (mine, theirs, n) => {
        const session = await ending(mine)
        // What the journal tells last may be of any session.
        const ofOthers = { seq: 2, sessionId: null, recovered: false, events: [], audit: [] }
        await accept(theirs, session, [1])
        await Promise.all([
          roundTrips(mine, n % 3).then(() => mine.endings.answered(session.id, { instanceId: 'i', seq: 2 })),
          roundTrips(theirs, n % 5).then(() => theirs.journal.accept(session.agentId, 'i', [ofOthers], Date.now())),
        ])
        expect(await mine.endings.isPending(session.id)).toBe(false)
        expect(await toldOf(session)).toEqual([1, 100, 'released'])
      },
      20,
    )
  })

  test('[2.4] brokers that find one due at once, while its agent tells the rest, end it once', async () => {
    await against(at, async (mine, theirs) => {
      const session = await ending(mine, 1)
      await mine.endings.answered(session.id, { instanceId: 'i', seq: 1 })
      await Promise.all([mine.endings.finishDue(1), theirs.endings.finishDue(1), accept(theirs, session, [1]), mine.endings.finishDue(1)])
      expect(await mine.endings.isPending(session.id)).toBe(false)
      const { types } = await events(mine, session.id)
      expect(types.filter((type) => type === 'released')).toHaveLength(1)
      expect(types.at(-1)).toBe('released')
    })
  })

  test('[2.4] an end that waits and a journal at once: what was told comes first, or not at all', async () => {
    await together(at, 12, async (store, n) => {
      const { id, agentId } = await active(store, { agentId: fresh('agt') })
      const session = await read(store, id)
      const other = n % 2 === 0 ? at.other : at.one
      await Promise.all([change(store, id, RELEASED, { events: [told(100), LAST], eventsWaitUntil: FAR }), accept(other, session, [1])])
      await other.endings.answered(id, { instanceId: 'i', seq: 1 })
      expect(await toldOf(session), agentId).toEqual([1, 100, 'released'])
    })
  })
}
