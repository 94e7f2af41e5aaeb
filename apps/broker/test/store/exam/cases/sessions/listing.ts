import { expect, test } from 'vitest'
import type { ProvisioningSession, Session } from '../../../../../src/domain/session.ts'
import type { SessionFilter } from '../../../../../src/store/session-store.ts'
import { newSession } from '../../../../support/crowd.ts'
import type { Stores } from '../../exam.ts'
import { active, change, create, ended, fresh, listing, provisioning, RELEASED, read, times, together } from '../../parts.ts'

const ids = (sessions: readonly Session[]): string[] => sessions.map(({ id }) => id)

export function listingCases(at: Stores): void {
  test('a tenant’s live sessions are listed newest first, by id among those of one moment, page after page', async () => {
    const tenant = fresh('tenant')
    const moments = [5, 3, 5, 1, 5, 4, 5].map((n) => 1_000_000 + n)
    // In the order of their bytes, which is not the order of any language.
    const names = ['a', 'B', '_', 'ä', 'Z', 'b', 'a0']
    const all = moments.map((createdAt, n) => newSession({ tenant, createdAt, id: `${names[n]}-${tenant}` }))
    for (const session of all) await create(at.one, session)
    const order = all.toSorted((a, b) => b.createdAt - a.createdAt || (b.id < a.id ? -1 : 1))
    expect(ids(await at.other.sessions.list(listing(tenant)))).toEqual(ids(order))
    const seen: string[] = []
    for (let after: SessionFilter['after'] = null; ; ) {
      const page = await at.other.sessions.list(listing(tenant, { limit: 3, after }))
      seen.push(...ids(page))
      const last = page.at(-1)
      if (page.length < 3 || last === undefined) break
      after = { createdAt: last.createdAt, id: last.id }
    }
    expect(seen).toEqual(ids(order))
  })

  test('a list has what its filter says: state, type and id of the scope, label', async () => {
    const tenant = fresh('tenant')
    const base = { tenant, labels: { box: 'true', "it's": '"x"' } }
    const plain = await active(at.one, { tenant, labels: { box: 'other' } })
    const made = await provisioning(at.one, { ...base, scope: { type: 'assistant', id: 'x' } })
    const same = await active(at.one, { ...base, scope: { type: 'workspace', id: 'x' } })
    const gone = await ended(at.one, { ...base, scope: { type: 'workspace', id: 'x-gone' } })
    const failed = await change(at.one, (await active(at.one, { tenant })).id, { type: 'sandbox_lost', reason: 'x' })
    const list = async (fields: Partial<SessionFilter>) => ids(await at.other.sessions.list(listing(tenant, fields))).toSorted()
    const sorted = (...sessions: Session[]) => ids(sessions).toSorted()
    expect(await list({})).toEqual(sorted(plain, made, same))
    expect(await list({ state: 'active' })).toEqual(sorted(plain, same))
    expect(await list({ state: 'idle' })).toEqual([])
    expect(await list({ state: 'terminated' })).toEqual([gone.id])
    expect(await list({ state: 'failed' })).toEqual([failed.id])
    expect(await list({ scopeId: 'x' })).toEqual(sorted(made, same))
    expect(await list({ scopeType: 'workspace', scopeId: 'x' })).toEqual([same.id])
    expect(await list({ scopeType: 'workspace' })).toEqual([same.id])
    expect(await list({ state: 'terminated', scopeId: 'x-gone' })).toEqual([gone.id])
    expect(await list({ state: 'terminated', scopeId: 'x' })).toEqual([])
    expect(await list({ label: { key: "it's", value: '"x"' } })).toEqual(sorted(made, same))
    expect(await list({ label: { key: "it's", value: '"x"' }, state: 'terminated' })).toEqual([gone.id])
    for (const label of [
      { key: 'box', value: 'TRUE' },
      { key: 'Box', value: 'true' },
      { key: 'x', value: '' },
    ])
      expect(await list({ label })).toEqual([])
    expect(await list({ limit: 1 })).toHaveLength(1)
    expect(await at.one.sessions.list(listing(fresh('tenant')))).toEqual([])
    expect(await at.one.sessions.list(listing(tenant, { state: 'failed' }))).toEqual([failed])
  })

  test('a principal is shown live sessions of scopes that it owns or is a member of, and ended ones that it owned', async () => {
    const tenant = fresh('tenant')
    const make = (createdBy: string, id: string): Partial<ProvisioningSession> => ({ tenant, createdBy, scope: { type: 'thread', id } })
    const mine = await active(at.one, make('ann', 'a'))
    const shared = await active(at.one, make('bob', 'b'))
    const theirs = await active(at.one, make('bob', 'c'))
    const past = await ended(at.one, make('ann', 'd'))
    const change = { tenant, scope: shared.scope, known: 'bob', owner: 'bob', members: ['ann'], now: 1 }
    await at.one.scopes.setMembers(change, [])
    const list = async (principal: string, fields: Partial<SessionFilter> = {}) =>
      ids(await at.other.sessions.list(listing(tenant, { principal, ...fields }))).toSorted()
    expect(await list('ann')).toEqual([mine.id, shared.id].toSorted())
    expect(await list('bob')).toEqual([shared.id, theirs.id].toSorted())
    expect(await list('eve')).toEqual([])
    expect(await list('ann', { state: 'terminated' })).toEqual([past.id])
    expect(await list('bob', { state: 'terminated' })).toEqual([])
    expect(await list('ann', { state: 'terminated', scopeId: 'd' })).toEqual([past.id])
    expect(await list('bob', { state: 'terminated', scopeId: 'd' })).toEqual([])
  })

  test('the reaper is given live sessions that are due, most overdue first', async () => {
    const due = (hardExpiresAt: number) => provisioning(at.one, { hardExpiresAt })
    const [third, first, second] = [await due(1003), await due(1001), await due(1002)]
    const gone = await due(1000)
    await due(1004)
    await change(at.one, gone.id, RELEASED)
    expect(await at.other.sessions.due(1003, 10)).toEqual([first, second, third])
    expect(ids(await at.other.sessions.due(1003, 2))).toEqual([first.id, second.id])
    expect(await at.other.sessions.due(1000, 10)).toEqual([])
  })

  test('an agent’s sessions are those that have a sandbox there, and those that ended lately; brokers find what is being made', async () => {
    const agentId = fresh('agt')
    const making = await provisioning(at.one, { agentId })
    const running = await active(at.one, { agentId })
    const suspended = await change(at.one, (await active(at.one, { agentId })).id, { type: 'suspend_requested', mode: 'stop' })
    const gone = await ended(at.one, { agentId })
    const elsewhere = await active(at.one, { agentId: fresh('agt') })
    await active(at.one)
    expect(ids(await at.other.agentSessions.placedOn([agentId])).toSorted()).toEqual([running.id, suspended.id].toSorted())
    const both = await at.other.agentSessions.placedOn([agentId, elsewhere.agentId, fresh('agt')])
    expect(ids(both).toSorted()).toEqual([running.id, suspended.id, elsewhere.id].toSorted())
    expect(await at.other.agentSessions.placedOn([])).toEqual([])
    const read = await at.other.sessions.byIds([making.id, running.id, gone.id, fresh('ssn')])
    expect(ids(read).toSorted()).toEqual([making.id, running.id, gone.id].toSorted())
    expect(read).toContainEqual(gone)
    expect(await at.other.sessions.byIds([])).toEqual([])
    expect(await at.other.agentSessions.endedOn(agentId, gone.endedAt - 1)).toEqual([gone])
    expect(await at.other.agentSessions.endedOn(agentId, gone.endedAt)).toEqual([])
    const made = ids(await at.other.sessions.provisioning())
    expect(made).toContain(making.id)
    expect(made).not.toContain(running.id)
    await change(at.one, making.id, { type: 'taken_over', fence: 1, brokerId: 'b', agentId: fresh('agt') })
    await change(at.one, making.id, RELEASED)
    expect(await at.one.agentSessions.endedOn(agentId, 0)).toEqual([gone])
  })

  test('ended sessions are purged, as many as are wanted, and those that ended later stay', async () => {
    const [early, same] = [await ended(at.one), await active(at.one)]
    const late = await change(at.one, same.id, RELEASED, {}, early.endedAt + 100_000)
    const purge = (limit: number) => at.other.sessions.purge(early.endedAt + 100_000, limit)
    let purged = 0
    for (let n = 1; n > 0; purged += n) {
      n = await purge(2)
      expect(n).toBeLessThanOrEqual(2)
    }
    expect(purged).toBeGreaterThan(0)
    expect(await at.one.sessions.byId(early.id)).toBeUndefined()
    expect(await at.one.sessions.byId(late.id)).toEqual(late)
    const purges = [at.one, at.other].map((store) => store.sessions.purge(late.hardExpiresAt, 10))
    expect((await Promise.all(purges)).reduce((sum, n) => sum + n)).toBe(1)
  })

  test('the numbers of live sessions are true while sessions are made, move, end and fail at once', async () => {
    const tenants = [fresh('tenant'), fresh('tenant')]
    const agents = [fresh('agt'), fresh('agt')]
    const label = { key: 'box', value: 'true' }
    await together(at, 48, async (store, n) => {
      const tenant = tenants[n % 2] ?? ''
      const session = newSession({
        tenant,
        agentId: agents[n % 3 === 0 ? 1 : 0] ?? '',
        labels: n % 4 < 2 ? { box: 'true', n: `${n}` } : {},
      })
      const other = store === at.one ? at.other : at.one
      await create(store, session)
      // Refused ones leave the numbers as they are.
      if (n % 5 === 0) await create(other, { ...session, id: fresh('ses') }, { owner: 'me' })
      if (n % 4 === 1) await change(other, session.id, { type: 'taken_over', fence: 1, brokerId: 'b', agentId: agents[0] ?? '' })
      if (n % 6 === 2) await change(other, session.id, RELEASED)
      if (n % 6 === 4) await change(store, session.id, { type: 'create_failed', fence: (await read(store, session.id)).fence, reason: 'x' })
    })
    const rows = (await Promise.all(tenants.map((tenant) => at.one.sessions.list(listing(tenant))))).flat()
    const { counts } = at.other
    expect(rows).toHaveLength(32)
    const of = (agent?: string) => rows.filter(({ agentId }) => agentId === agent).length
    expect(await counts.liveByAgent([...agents, fresh('agt')])).toEqual({
      [agents[0] ?? '']: of(agents[0]),
      [agents[1] ?? '']: of(agents[1]),
    })
    for (const tenant of tenants) {
      const own = rows.filter((session) => session.tenant === tenant)
      const labeled = own.filter(({ labels }) => labels.box === 'true')
      expect(await counts.liveOf(tenant, null)).toEqual({ provisioning: own.length })
      expect(await counts.liveOf(tenant, label)).toEqual({ provisioning: labeled.length })
      // By the quotas, too.
      const more = newSession({ tenant, labels: { box: 'true' } })
      expect(await create(at.one, more, { maxLive: own.length })).toEqual({ outcome: 'quota', max: own.length })
      expect(await create(at.one, more, { labelQuota: { ...label, max: labeled.length } })).toEqual({
        outcome: 'quota',
        max: labeled.length,
      })
      expect(await create(at.one, more, { maxLive: own.length + 1, labelQuota: { ...label, max: labeled.length + 1 } })).toEqual({
        outcome: 'created',
      })
    }
  })

  test('live sessions are counted by state, and those that are busy', async () => {
    const tenant = fresh('tenant')
    const sessions = await Promise.all(times(4).map(() => active(at.one, { tenant, labels: { a: 'b' } })))
    const before = await at.one.counts.liveByState()
    const [busy, suspended, gone] = ids(sessions)
    await change(at.one, busy ?? '', { type: 'activity', at: Date.now(), busy: true })
    await change(at.one, suspended ?? '', { type: 'suspend_requested', mode: 'freeze' })
    await change(at.one, gone ?? '', RELEASED)
    for (const { counts } of [at.one, at.other]) {
      expect(await counts.busyOf(tenant)).toBe(1)
      expect(await counts.liveOf(tenant, null)).toEqual({ active: 2, suspended: 1 })
      expect(await counts.liveOf(tenant, { key: 'a', value: 'b' })).toEqual({ active: 2, suspended: 1 })
      expect(await counts.liveOf(tenant, { key: 'a', value: 'c' })).toEqual({})
      const now = await counts.liveByState()
      expect([now.active, now.suspended]).toEqual([(before.active ?? 0) - 2, (before.suspended ?? 0) + 1])
    }
    await Promise.all(ids(sessions).map((id) => (id === gone ? undefined : change(at.other, id, RELEASED))))
    expect(await at.one.counts.liveOf(tenant, null)).toEqual({})
    expect(await at.one.counts.busyOf(tenant)).toBe(0)
  })
}
