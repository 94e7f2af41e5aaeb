import { EgressPolicy, MountSet } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import type { SessionEvent } from '../../../../../src/domain/lifecycle.ts'
import { isLive, type Session } from '../../../../../src/domain/session.ts'
import type { Store } from '../../../../../src/store/store.ts'
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
  howMany,
  LAST,
  madeBy,
  provisioning,
  RELEASED,
  read,
  times,
  together,
  told,
} from '../../parts.ts'

const touched = (session: Session, at: number): Session => after(session, { type: 'touched' }, at)
const leaseOf = (session: Session): number => session.leaseExpiresAt

export function savingCases(at: Stores): void {
  test('a revision that an agent remembers is caught up with where it is higher, and only there', async () => {
    const session = await active(at.one)
    expect(await at.one.sessions.catchUp(session.id, session.revision)).toBe(false)
    expect(await at.one.sessions.catchUp(session.id, 1000)).toBe(true)
    expect(await at.other.sessions.byId(session.id)).toEqual({ ...session, revision: 1001 })
    expect(await at.other.sessions.catchUp(session.id, 1000)).toBe(false)
    expect(await at.one.sessions.catchUp('ssn_nobody', 1000)).toBe(false)
    // Whoever has read it before is overtaken.
    expect(await at.one.sessions.save(session, after(session, { type: 'released' }))).toBe(false)
  })

  test('[4-90] a session reads in each state as it was saved, its revision one higher', async () => {
    const walk = async (start: Session, ...events: SessionEvent[]): Promise<void> => {
      let session = start
      for (const event of events) {
        const next = after(session, event, event.type === 'tick' ? session.hardExpiresAt : Date.now())
        expect(await at.one.sessions.save(session, next), event.type).toBe(true)
        session = { ...next, revision: session.revision + 1 }
        expect(await at.other.sessions.byId(session.id), event.type).toEqual(session)
      }
    }
    const mounts = MountSet.parse({ mounts: [{ host_path: '/srv/data', mount_path: '/data', mode: 'ro' }] })
    await walk(
      await active(at.one, { labels: { a: 'b' } }),
      { type: 'activity', at: Date.now(), busy: true },
      { type: 'new_incarnation', incarnation: 2, mounts },
      { type: 'egress_set', policy: EgressPolicy.parse({ allow: ['a.example'], rules: [{ host: 'b.example' }] }) },
      { type: 'egress_set', policy: null },
      { type: 'suspend_requested', mode: 'freeze' },
      { type: 'touched' },
      { type: 'suspend_requested', mode: 'stop' },
      { type: 'released', keepWorkspace: true },
    )
    const details = { n: 1, of: ['ä', '"', '\0'] }
    await walk(
      await provisioning(at.one),
      { type: 'taken_over', fence: 1, brokerId: 'brk_2', agentId: 'agt_2' },
      { type: 'create_failed', fence: 2, reason: 'no "space"', details },
      RELEASED,
    )
    await walk(await active(at.one), { type: 'sandbox_lost', reason: 'gone', gone: true })
    await walk(await active(at.one), { type: 'tick', suspend: [] })
  })

  test('a save over another save is refused, and writes nothing of what goes with it', async () => {
    const before = await active(at.one)
    await change(at.one, before.id, { type: 'suspend_requested', mode: 'stop' })
    const { tenant, id: sessionId } = before
    const idempotency = { tenant, principal: 'me', route: 'r', key: 'k', bodyHash: 'h', sessionId, expiresAt: Date.now() + 60_000 }
    const grant = {
      sessionId,
      actor: 'a',
      principal: 'me',
      grantedAt: 1,
      capabilities: [],
      carried: [],
      narrowedTo: null,
      narrowedAt: null,
    }
    const options = { audit: [audited(sessionId)], events: [told(1)], idempotency, grant, workspace: 'hold' as const }
    for (const event of [RELEASED, { type: 'suspend_requested', mode: 'freeze' } as const, { type: 'touched' } as const])
      expect(await at.other.sessions.save(before, after(before, event), options), event.type).toBe(false)
    expect(await read(at.one, sessionId)).toMatchObject({
      state: 'suspended',
      mode: 'stop',
      revision: before.revision + 1,
      hasGrants: false,
    })
    expect(await auditOf(at.one, sessionId)).toEqual([])
    expect((await events(at.one, sessionId)).ids).toEqual([])
    expect(await at.one.idempotency.find(tenant, 'me', 'r', 'k', 0)).toBeUndefined()
  })

  test('touches move the lease forward only, do not exclude each other, and raise the revision', async () => {
    const before = await active(at.one)
    const [early, late] = [leaseOf(before) + 1000, leaseOf(before) + 60_000]
    const expected = touched(before, late)
    expect(await at.one.sessions.save(before, expected)).toBe(true)
    expect(await at.other.sessions.save(before, touched(before, early))).toBe(true)
    expect(await read(at.one, before.id)).toEqual({ ...expected, revision: before.revision + 2 })
    // What else changes the session is told by the revision.
    expect(await at.one.sessions.save(before, after(before, RELEASED))).toBe(false)
  })

  test('a touch is refused where the session has gone to another state, or its sandbox was made anew', async () => {
    const suspended = await active(at.one)
    await change(at.other, suspended.id, { type: 'suspend_requested', mode: 'freeze' })
    expect(await at.one.sessions.save(suspended, touched(suspended, Date.now()))).toBe(false)
    const remade = await active(at.one)
    await change(at.other, remade.id, { type: 'new_incarnation', incarnation: 2, mounts: MountSet.parse({}) })
    expect(await at.one.sessions.save(remade, touched(remade, Date.now()))).toBe(false)
    const woken = await active(at.one)
    await change(at.other, woken.id, { type: 'suspend_requested', mode: 'freeze' })
    await change(at.other, woken.id, { type: 'touched' })
    expect(await at.one.sessions.save(woken, touched(woken, Date.now()))).toBe(true)
  })

  test('touches of many sessions at once: each is made or refused by itself, and of one session all are made', async () => {
    const sessions = await Promise.all(times(20).map(() => active(at.one)))
    const [twice, gone] = sessions as [Session, Session]
    await change(at.one, gone.id, RELEASED)
    const touch = (session: Session, n: number) => at.other.sessions.save(session, touched(session, leaseOf(session) + n * 1000))
    const outcomes = await Promise.all([...sessions.map((session, n) => touch(session, n)), touch(twice, 100)])
    expect(outcomes).toEqual([...sessions.map((session) => session !== gone), true])
    for (const [n, session] of sessions.entries()) {
      if (session === gone) continue
      const [last, revision] = session === twice ? [100, 2] : [n, 1]
      const expected = touched(session, leaseOf(session) + last * 1000)
      expect(await read(at.one, session.id)).toEqual({ ...expected, revision: session.revision + revision })
    }
  })

  test('of 16 saves of the same session at once one is made, with its events and audit entries', async () => {
    const before = await provisioning(at.one)
    const outcomes = await together(at, 16, (store, n) =>
      store.sessions.save(before, after(before, { type: 'taken_over', fence: 1, brokerId: `b${n}`, agentId: 'agt_2' }), {
        events: [told(n)],
        audit: [audited(before.id, { code: `b${n}` })],
      }),
    )
    expect(howMany(outcomes, true)).toBe(1)
    const winner = outcomes.indexOf(true)
    expect(await read(at.one, before.id)).toMatchObject({ brokerId: `b${winner}`, fence: 2, revision: 1 })
    expect(await events(at.one, before.id)).toMatchObject({ ids: [1], told: [winner] })
    expect((await auditOf(at.one, before.id)).map(({ code }) => code)).toEqual([`b${winner}`])
  })

  test('16 touches at once, and 16 more, with an event each: ids from 1 without a gap, nothing lost', async () => {
    const before = await active(at.one)
    const touch = (store: Store, n: number) =>
      store.sessions.save(before, touched(before, leaseOf(before) + n * 1000), { events: [told(n)], audit: [audited(before.id)] })
    const first = await together(at, 16, touch)
    const then = await together(at, 16, (store, n) => touch(store, 16 + n))
    expect(howMany([...first, ...then], true)).toBe(32)
    const { ids, told: numbers } = await events(at.other, before.id)
    expect(ids).toEqual(times(32).map((n) => n + 1))
    expect(numbers.slice(0, 16).toSorted((a, b) => a - b)).toEqual(times(16))
    expect(numbers.toSorted((a, b) => a - b)).toEqual(times(32))
    expect(await auditOf(at.one, before.id)).toHaveLength(32)
    const last = touched(before, leaseOf(before) + 31_000)
    expect(await read(at.other, before.id)).toEqual({ ...last, revision: before.revision + 32 })
  })

  test('an end and a touch at once: one of them at least is made, and nothing follows an end', async () => {
    await against(at, async (mine, theirs) => {
      const before = await active(mine)
      const [isEnded, isTouched] = await Promise.all([
        mine.sessions.save(before, after(before, RELEASED), { events: [LAST] }),
        theirs.sessions.save(before, touched(before, Date.now()), { events: [told(1)] }),
      ])
      expect([isEnded, isTouched]).toContain(true)
      // A touch raises the revision, so an end that follows it is refused.
      expect(isEnded && isTouched).toBe(false)
      expect(isLive(await read(mine, before.id))).toBe(!isEnded)
      expect((await events(mine, before.id)).types).toEqual(isEnded ? ['released'] : ['lease'])
    })
  })

  test('[C-24] a broker that is taken over cannot activate the session any more', async () => {
    await against(at, async (mine, theirs) => {
      const before = await provisioning(mine)
      const made = await Promise.all([
        mine.sessions.save(before, after(before, madeBy(before))),
        theirs.sessions.save(before, after(before, { type: 'taken_over', fence: 1, brokerId: 'brk_2', agentId: 'agt_2' })),
      ])
      expect(howMany(made, true)).toBe(1)
      expect((await read(mine, before.id)).state).toBe(made[0] ? 'active' : 'provisioning')
    })
  })

  test('an ended session stays as it is, but for its acknowledgement', async () => {
    const session = await ended(at.one)
    expect(await at.one.sessions.live(session.tenant, session.scope)).toBeUndefined()
    const failed = await change(at.one, (await active(at.one)).id, { type: 'sandbox_lost', reason: 'x' })
    expect(await change(at.other, failed.id, RELEASED)).toMatchObject({ state: 'terminated', reason: 'released' })
    const expiring = await active(at.one)
    const expired = await change(at.one, expiring.id, { type: 'tick', suspend: [] }, {}, expiring.hardExpiresAt)
    expect(expired).toMatchObject({ state: 'terminated', reason: 'hard_ttl', endedAt: expiring.hardExpiresAt })
  })

  test('[C-16] a creation that failed forgets the idempotency key under which it was made', async () => {
    const session = await provisioning(at.one)
    const { tenant, id: sessionId } = session
    const record = { tenant, principal: 'me', route: 'r', key: 'k', bodyHash: 'h', sessionId, expiresAt: Date.now() + 60_000 }
    const found = () => at.other.idempotency.find(tenant, 'me', 'r', 'k', Date.now())
    await change(at.one, sessionId, { type: 'taken_over', fence: 1, brokerId: 'b', agentId: 'a' }, { idempotency: record })
    expect(await found()).toEqual(record)
    await change(at.one, sessionId, { type: 'create_failed', fence: 2, reason: 'x' }, { forgetIdempotency: true })
    expect(await found()).toBeUndefined()
  })
}
