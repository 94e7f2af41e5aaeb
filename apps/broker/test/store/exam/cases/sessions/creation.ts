import { MountSet, Profile } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { newSession } from '../../../../support/crowd.ts'
import type { Stores } from '../../exam.ts'
import {
  active,
  against,
  audited,
  auditOf,
  change,
  create,
  ended,
  events,
  fresh,
  howMany,
  listing,
  provisioning,
  RELEASED,
  read,
  successor,
  together,
  told,
} from '../../parts.ts'

export function creationCases(at: Stores): void {
  test('a new session reads the same at each store, by its id and by its scope', async () => {
    const session = newSession({
      tenant: fresh('tenant'),
      scope: { type: 'workspace', id: `quote ' " \\ % _ {"a":1} Zürich 票 ${fresh('')}` },
      profile: Profile.parse({ name: 'own', lease_seconds: 77, env: { A: "'b'" } }),
      mounts: MountSet.parse({ mounts: [{ host_path: '/srv/data', mount_path: '/data' }] }),
      labels: { 'a.b': 'c', '': '', "it's": '"x"', 票: '\u{1F4E6}' },
      relay: 'never',
      providerPreference: 'docker',
      needsImage: true,
      shape: 'full',
    })
    expect(await create(at.one, session)).toEqual({ outcome: 'created' })
    for (const { sessions } of [at.one, at.other]) {
      expect(await sessions.byId(session.id)).toEqual(session)
      expect(await sessions.live(session.tenant, session.scope)).toEqual(session)
    }
  })

  test('[C-21] a scope has one live session, another type, id or tenant has its own, and an ended one leaves room', async () => {
    const first = await active(at.one)
    const { tenant, scope } = first
    expect(await create(at.other, successor(first), { owner: 'me' })).toEqual({ outcome: 'exists' })
    for (const fields of [
      { tenant: fresh('tenant') },
      { scope: { ...scope, type: 'assistant' as const } },
      { scope: { ...scope, id: 'X' } },
    ])
      expect(await create(at.other, successor(first, fields))).toEqual({ outcome: 'created' })
    await change(at.one, first.id, RELEASED)
    expect(await at.other.sessions.live(tenant, scope)).toBeUndefined()
    const next = successor(first)
    expect(await create(at.other, next, { owner: 'me' })).toEqual({ outcome: 'created' })
    expect(await at.one.sessions.live(tenant, scope)).toMatchObject({ id: next.id })
    expect(await at.one.sessions.byId(first.id)).toMatchObject({ state: 'terminated' })
  })

  test('[C-02] the first session claims its scope; where the scope is another than was known, nothing is made', async () => {
    const session = await provisioning(at.one, { createdBy: 'ann' })
    const { tenant, scope } = session
    expect(await at.other.scopes.ownership(tenant, scope)).toEqual({ owner: 'ann', members: [] })
    await change(at.one, session.id, RELEASED)
    for (const terms of [{ owner: null, claimFor: 'bob' }, { owner: 'bob' }])
      expect(await create(at.other, successor(session), terms)).toEqual({ outcome: 'claimed' })
    expect(await at.one.sessions.live(tenant, scope)).toBeUndefined()
    expect(await at.one.scopes.ownership(tenant, scope)).toEqual({ owner: 'ann', members: [] })
    const unclaimed = newSession({ tenant })
    expect(await create(at.one, unclaimed, { claimFor: null })).toEqual({ outcome: 'created' })
    expect(await at.one.scopes.ownership(tenant, unclaimed.scope)).toEqual({ owner: null, members: [] })
  })

  test('a creation is written with its events, grant, idempotency key and audit entries; one that is refused leaves nothing', async () => {
    const [first, second] = [newSession({ tenant: fresh('tenant') }), newSession({ tenant: fresh('tenant') })]
    const written = ({ id: sessionId, tenant }: typeof first) => ({
      events: [told(1), told(2)],
      audit: [audited(sessionId), audited(sessionId)],
      grant: { sessionId, actor: 'a', principal: 'me', grantedAt: 1, capabilities: [], carried: [], narrowedTo: null, narrowedAt: null },
      idempotency: { tenant, principal: 'me', route: 'r', key: 'k', bodyHash: 'h', sessionId, expiresAt: Date.now() + 60_000 },
    })
    const wrote = async ({ id, tenant }: typeof first) => [
      (await events(at.other, id)).told,
      (await auditOf(at.other, id)).length,
      (await at.other.grants.find(id, 'a'))?.principal,
      (await at.other.idempotency.find(tenant, 'me', 'r', 'k', Date.now()))?.sessionId,
    ]
    expect(await create(at.one, first, {}, written(first))).toEqual({ outcome: 'created' })
    expect(await wrote(first)).toEqual([[1, 2], 2, 'me', first.id])
    expect(await read(at.one, first.id)).toMatchObject({ hasGrants: true })
    const refused = [
      create(at.one, second, { maxLive: 0 }, written(second)),
      create(at.one, second, { owner: 'bob' }, written(second)),
      create(at.one, { ...second, tenant: first.tenant, scope: first.scope }, { owner: 'me' }, { ...written(second) }),
    ]
    expect((await Promise.all(refused)).map(({ outcome }) => outcome)).toEqual(['quota', 'claimed', 'exists'])
    expect(await wrote(second)).toEqual([[], 0, undefined, undefined])
    expect(await at.one.scopes.ownership(second.tenant, second.scope)).toEqual({ owner: null, members: [] })
    expect(await at.one.sessions.byId(second.id)).toBeUndefined()
  })

  test('16 brokers that create for one scope at once make one session', async () => {
    const first = newSession({ tenant: fresh('tenant') })
    const all = await together(at, 16, async (store) => {
      const session = successor(first)
      const terms = { owner: null, claimFor: null }
      const { outcome } = await create(store, session, terms, { audit: [audited(session.id)], events: [told(1)] })
      return { outcome, id: session.id, audit: (await auditOf(store, session.id)).length, events: (await events(store, session.id)).ids }
    })
    const created = all.filter(({ outcome }) => outcome === 'created')
    expect(created).toEqual([{ outcome: 'created', id: expect.any(String), audit: 1, events: [1] }])
    expect(
      howMany(
        all.map(({ outcome }) => outcome),
        'exists',
      ),
    ).toBe(15)
    expect(all.filter(({ audit, events }) => audit + events.length > 0)).toHaveLength(1)
    expect(await at.one.sessions.live(first.tenant, first.scope)).toMatchObject({ id: created[0]?.id })
  })

  test('16 principals that claim one scope at once: it is the one whose session was made', async () => {
    const first = newSession({ tenant: fresh('tenant') })
    const outcomes = await together(at, 16, async (store, n) => {
      const createdBy = `p${n}`
      return (await create(store, successor(first, { createdBy }), { owner: null, claimFor: createdBy })).outcome
    })
    expect(howMany(outcomes, 'created')).toBe(1)
    const owner = `p${outcomes.indexOf('created')}`
    expect(await at.one.scopes.ownership(first.tenant, first.scope)).toEqual({ owner, members: [] })
    expect(await at.one.sessions.live(first.tenant, first.scope)).toMatchObject({ createdBy: owner })
  })

  test('[C-73] 40 at once with room for 10 in the tenant make 10', async () => {
    const tenant = fresh('tenant')
    const outcomes = await together(at, 40, (store) => create(store, newSession({ tenant }), { maxLive: 10 }))
    expect(outcomes.filter(({ outcome }) => outcome === 'created')).toHaveLength(10)
    expect(outcomes.filter(({ outcome }) => outcome === 'quota')).toEqual(Array(30).fill({ outcome: 'quota', max: 10 }))
    expect(await at.one.sessions.list(listing(tenant))).toHaveLength(10)
    expect(await create(at.other, newSession({ tenant: fresh('tenant') }), { maxLive: 1 })).toEqual({ outcome: 'created' })
  })

  test('40 at once with room for 7 with a label make 7, and others do not count', async () => {
    const tenant = fresh('tenant')
    const label = { key: 'box', value: 'true' }
    const labels = { other: 'x', box: 'true' }
    const labelQuota = { ...label, max: 7 }
    await Promise.all(['false', 'TRUE'].map((box) => provisioning(at.one, { tenant, labels: { box } })))
    const outcomes = await together(at, 40, (store) => create(store, newSession({ tenant, labels }), { labelQuota }))
    expect(outcomes.filter(({ outcome }) => outcome === 'created')).toHaveLength(7)
    expect(outcomes.filter(({ outcome }) => outcome === 'quota')).toEqual(Array(33).fill({ outcome: 'quota', max: 7 }))
    expect(await at.one.sessions.list(listing(tenant, { label }))).toHaveLength(7)
  })

  test('an end makes room for exactly one more', async () => {
    const tenant = fresh('tenant')
    const full = await Promise.all([1, 2, 3].map(() => active(at.one, { tenant })))
    expect(await create(at.other, newSession({ tenant }), { maxLive: 3 })).toEqual({ outcome: 'quota', max: 3 })
    const ends = full.slice(1).map(({ id }, n) => change(n === 0 ? at.one : at.other, id, RELEASED))
    const tried = await together(at, 12, (store) => create(store, newSession({ tenant }), { maxLive: 3 }))
    await Promise.all(ends)
    const then = await together(at, 12, (store) => create(store, newSession({ tenant }), { maxLive: 3 }))
    expect([...tried, ...then].filter(({ outcome }) => outcome === 'created')).toHaveLength(2)
    expect(await at.one.sessions.list(listing(tenant))).toHaveLength(3)
  })

  test('an end and creations of the same scope at once leave one live session at the most', async () => {
    await against(at, async (mine, theirs) => {
      const first = await active(mine)
      const next = [successor(first), successor(first)]
      const [, ...created] = await Promise.all([
        change(mine, first.id, RELEASED),
        ...next.map((session) => create(theirs, session, { owner: 'me' })),
      ])
      const made = created.filter(({ outcome }) => outcome === 'created')
      expect(made.length).toBeLessThanOrEqual(1)
      expect(await mine.sessions.list(listing(first.tenant))).toHaveLength(made.length)
    })
  })

  test('a store that is opened later has all that others have stored', async () => {
    const session = await ended(at.one)
    const later = await at.database.open()
    expect(await later.sessions.byId(session.id)).toEqual(session)
    await later.ping()
    expect(later.held.entries()).toEqual([])
  })
}
