import { expect, test } from 'vitest'
import { isLive, isPlaced } from '../../../../../src/domain/session.ts'
import type { GrantRecord } from '../../../../../src/store/session-store.ts'
import type { Store } from '../../../../../src/store/store.ts'
import { newSession } from '../../../../support/crowd.ts'
import type { Stores } from '../../exam.ts'
import {
  ANY,
  after,
  audited,
  auditOf,
  create,
  events,
  fresh,
  LAST,
  listing,
  madeBy,
  RELEASED,
  read,
  times,
  together,
  told,
} from '../../parts.ts'

const CALLERS = 20
const CALLS = 12
const MOST = 3

/** What many callers do to a few scopes of a tenant, and what has to be true of them afterwards. */
class Turmoil {
  readonly tenant = fresh('tenant')
  readonly agentId = fresh('agt')
  readonly ids: string[] = []
  /** Audit entries that belong to changes that were made, by session. */
  readonly entries = new Map<string, number>()
  readonly #scopes = times(5).map((n) => ({ type: 'thread', id: `${n}` }) as const)

  /** The call that this number stands for. */
  async call(store: Store, n: number): Promise<void> {
    const scope = this.#scopes[n % 5] ?? expect.fail()
    const { owner } = await store.scopes.ownership(this.tenant, scope)
    const live = await store.sessions.live(this.tenant, scope)
    const count = (id: string, isMade: boolean) => isMade && this.entries.set(id, (this.entries.get(id) ?? 0) + 1)
    switch (n % 9) {
      case 0:
      case 1: {
        const session = newSession({ tenant: this.tenant, scope, agentId: this.agentId, labels: { n: `${n % 2}` } })
        const terms = { ...ANY, owner, maxLive: MOST, labelQuota: { key: 'n', value: `${n % 2}`, max: MOST } }
        const { outcome } = await create(store, session, terms, { audit: [audited(session.id)], events: [told(1)] })
        if (outcome === 'created') this.ids.push(session.id)
        return void count(session.id, outcome === 'created')
      }
      case 2:
      case 3: {
        if (live === undefined) return
        const next = isPlaced(live) ? after(live, { type: 'touched' }) : after(live, madeBy(live))
        const options = { audit: [audited(live.id)], events: [told(n)], workspace: isPlaced(live) ? null : ('hold' as const) }
        return void count(live.id, await store.sessions.save(live, next, options))
      }
      case 4: {
        if (live === undefined) return
        const options = {
          audit: [audited(live.id)],
          events: [LAST],
          workspace: 'forget' as const,
          eventsWaitUntil: n % 2 === 0 ? 8e15 : null,
        }
        count(live.id, await store.sessions.save(live, after(live, RELEASED), options))
        return store.endings.answered(live.id, undefined)
      }
      case 5: {
        const [one, other] = [this.ids.at(-1 - (n % 3)), this.ids.at(-1 - (n % 4))]
        const told = [one, other].flatMap((id) => id ?? [])
        await store.journal.accept(
          this.agentId,
          fresh('instance'),
          told.map((id, seq) => this.#entry(id, seq + 1)),
          Date.now(),
        )
        for (const id of told) count(id, true)
        return
      }
      case 6:
        await store.scopes.setMembers({ tenant: this.tenant, scope, known: owner, owner: 'me', members: [`m${n}`], now: 1 }, [])
        return void (await store.sessions.forgetScope(this.tenant, scope, owner, []))
      case 7: {
        if (live === undefined) return
        const base = { sessionId: live.id, actor: 'a', principal: 'p', grantedAt: n, carried: [], narrowedTo: null, narrowedAt: null }
        const grant: GrantRecord = { ...base, capabilities: ['exec'] }
        await store.grants.put([grant], [audited(live.id)])
        await store.grants.withdraw(grant, (held) => ({ ...held, narrowedTo: [], narrowedAt: n }))
        return void count(live.id, true)
      }
      default:
        if (live !== undefined) await store.environments.put(live.id, { A: `${n}` })
    }
  }

  #entry = (sessionId: string, seq: number) => ({ seq, sessionId, recovered: false, events: [told(seq)], audit: [audited(sessionId)] })

  async check(store: Store): Promise<void> {
    const rows = await store.sessions.list(listing(this.tenant))
    expect(new Set(rows.map(({ scope }) => scope.id)).size).toBe(rows.length)
    expect(rows.length).toBeLessThanOrEqual(MOST)
    const counted = Object.values(await store.counts.liveOf(this.tenant, null)).reduce((sum, n) => sum + n, 0)
    expect([counted, (await store.counts.liveByAgent([this.agentId]))[this.agentId] ?? 0]).toEqual([rows.length, rows.length])
    const quota = { owner: null, claimFor: null, maxLive: rows.length }
    const more = newSession({ tenant: this.tenant })
    expect(await create(store, more, quota)).toEqual({ outcome: 'quota', max: rows.length })
    for (const id of this.ids) {
      const { ids, types } = await events(store, id)
      expect(ids).toEqual(times(ids.length).map((n) => n + 1))
      const session = await read(store, id)
      expect(types.indexOf('released')).toBe(isLive(session) ? -1 : types.length - 1)
      expect(await auditOf(store, id)).toHaveLength(this.entries.get(id) ?? 0)
      if (!isLive(session)) expect(await store.environments.of(id)).toBeUndefined()
    }
  }
}

export function everythingCases(at: Stores): void {
  test('all that can be done to a few scopes, by 20 at once: nothing fails, and everything is true afterwards', async () => {
    const turmoil = new Turmoil()
    await together(at, CALLERS, async (store, caller) => {
      // The callers meet in another way at each call, the same ones in each run.
      for (const n of times(CALLS)) await turmoil.call(store, caller * 7 + n * 11 + ((caller * n) % 5))
    })
    expect(turmoil.ids.length).toBeGreaterThan(3)
    await turmoil.check(at.one)
    await turmoil.check(at.other)
  })
}
