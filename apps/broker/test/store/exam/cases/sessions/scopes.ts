import { expect, test } from 'vitest'
import { workspaceIdOf } from '../../../../../src/domain/scope.ts'
import type { MembersChange } from '../../../../../src/store/session-store.ts'
import { newSession } from '../../../../support/crowd.ts'
import type { Stores } from '../../exam.ts'
import {
  active,
  against,
  audited,
  auditOf,
  change,
  create,
  fresh,
  howMany,
  listing,
  provisioning,
  RELEASED,
  read,
  successor,
  times,
  together,
} from '../../parts.ts'

export function scopeCases(at: Stores): void {
  const somewhere = () => ({ tenant: fresh('tenant'), scope: { type: 'thread', id: fresh('thread') } as const })
  const members = (change: Partial<MembersChange> & Pick<MembersChange, 'tenant' | 'scope'>): MembersChange => ({
    ...{ known: null, owner: 'ann', members: [], now: 1 },
    ...change,
  })

  test('members are replaced, who is gone is told, and an owner is no member', async () => {
    const where = somewhere()
    const mark = fresh('mark')
    expect(await at.one.scopes.ownership(where.tenant, where.scope)).toEqual({ owner: null, members: [] })
    const first = members({ ...where, members: ['bob', 'ann', 'cat', '票', "'"] })
    expect(await at.one.scopes.setMembers(first, [audited(mark)])).toEqual({ owner: 'ann', removed: [] })
    const then = await at.other.scopes.ownership(where.tenant, where.scope)
    expect({ ...then, members: then.members.toSorted() }).toEqual({ owner: 'ann', members: ["'", 'bob', 'cat', '票'] })
    const second = members({ ...where, known: 'ann', owner: 'eve', members: ['cat', 'dan', "'"] })
    const done = await at.other.scopes.setMembers(second, [audited(mark)])
    expect(done).toEqual({ owner: 'ann', removed: expect.arrayContaining(['bob', '票']) })
    expect(done?.removed).toHaveLength(2)
    expect(await auditOf(at.one, mark)).toHaveLength(2)
    const removed = await at.one.scopes.setMembers(members({ ...where, known: 'ann' }), [])
    expect(removed?.removed.toSorted()).toEqual(["'", 'cat', 'dan'])
    expect(await at.other.scopes.ownership(where.tenant, where.scope)).toEqual({ owner: 'ann', members: [] })
  })

  test('members are not set where the scope is somebody else’s than was known', async () => {
    const where = somewhere()
    const mark = fresh('mark')
    await at.one.scopes.setMembers(members({ ...where, members: ['bob'] }), [])
    for (const known of [null, 'eve'])
      expect(await at.other.scopes.setMembers(members({ ...where, known, owner: 'eve' }), [audited(mark)])).toBeUndefined()
    expect(await at.other.scopes.setMembers(members({ ...somewhere(), known: 'ann' }), [audited(mark)])).toBeUndefined()
    expect(await at.one.scopes.ownership(where.tenant, where.scope)).toEqual({ owner: 'ann', members: ['bob'] })
    expect(await auditOf(at.one, mark)).toEqual([])
  })

  test('[C-74] a scope that is forgotten is nobody’s, and all that it left reads as released', async () => {
    const agentId = fresh('agt')
    const failed = await active(at.one, { agentId })
    const { tenant, scope } = failed
    await change(at.one, failed.id, { type: 'sandbox_lost', reason: 'x' })
    const next = successor(failed)
    await create(at.one, next, { owner: 'me' })
    const kept = await change(at.one, next.id, RELEASED)
    const held = successor(failed)
    await create(at.one, held, { owner: 'me' })
    await change(at.one, held.id, { type: 'created', fence: 1, placed: placed(agentId) }, { workspace: 'hold' })
    await at.one.scopes.setMembers(members({ tenant, scope, known: 'me', members: ['bob'] }), [])
    const forget = (owner: string | null) => at.other.sessions.forgetScope(tenant, scope, owner, [audited(held.id)])
    expect(await forget('me')).toBe('live')
    await change(at.one, held.id, { type: 'released', keepWorkspace: true })
    expect(await at.one.sessions.keptOf(tenant, scope)).toEqual([held.id])
    for (const owner of [null, 'eve']) expect(await forget(owner)).toBe('changed')
    expect(await auditOf(at.one, held.id)).toEqual([])
    const bystander = await active(at.one, { tenant })
    expect(await forget('me')).toBe('forgotten')
    expect(await auditOf(at.one, held.id)).toHaveLength(1)
    expect(await at.one.scopes.ownership(tenant, scope)).toEqual({ owner: null, members: [] })
    expect(await at.one.sessions.keptOf(tenant, scope)).toEqual([])
    expect(await at.one.workspaces.holders(workspaceIdOf(tenant, scope))).toEqual([])
    expect(await at.one.workspaces.unwantedOn(agentId)).toEqual([workspaceIdOf(tenant, scope)])
    expect(await read(at.one, failed.id)).toMatchObject({ state: 'terminated', reason: 'released', revision: 3 })
    expect(await read(at.one, kept.id)).toEqual(kept)
    expect(await read(at.one, bystander.id)).toEqual(bystander)
    expect(await at.one.scopes.ownership(tenant, bystander.scope)).toMatchObject({ owner: 'me' })
    expect(await forget(null)).toBe('forgotten')
  })

  test('[C-74] a scope is forgotten or gets a session, never both for the same owner', async () => {
    await against(at, async (mine, theirs) => {
      const first = await provisioning(mine)
      const { tenant, scope } = first
      await change(mine, first.id, RELEASED)
      const [forgotten, { outcome }] = await Promise.all([
        mine.sessions.forgetScope(tenant, scope, 'me', []),
        create(theirs, successor(first), { owner: 'me' }),
      ])
      expect(['forgotten claimed', 'live created']).toContain(`${forgotten} ${outcome}`)
      expect((await mine.scopes.ownership(tenant, scope)).owner).toBe(forgotten === 'forgotten' ? null : 'me')
    })
  })

  test('a scope of nobody whose members are set while another creates for it is one of the two’s', async () => {
    await against(at, async (mine, theirs) => {
      const session = newSession({ ...somewhere(), createdBy: 'ann' })
      const { tenant, scope } = session
      const [set, { outcome }] = await Promise.all([
        mine.scopes.setMembers(members({ tenant, scope, owner: 'bob', members: ['cat'] }), []),
        create(theirs, session, { claimFor: 'ann' }),
      ])
      expect([set?.owner, outcome]).toEqual(set === undefined ? [undefined, 'created'] : ['bob', 'claimed'])
      const ownership = set === undefined ? { owner: 'ann', members: [] } : { owner: 'bob', members: ['cat'] }
      expect(await mine.scopes.ownership(tenant, scope)).toEqual(ownership)
      expect(await mine.sessions.list(listing(tenant))).toHaveLength(set === undefined ? 1 : 0)
    })
  })

  test('16 principals that set the members of a scope of nobody at once: it is one’s, with its members', async () => {
    const where = somewhere()
    const done = await together(at, 16, (store, n) =>
      store.scopes.setMembers(members({ ...where, owner: `p${n}`, members: [`m${n}`, `n${n}`] }), []),
    )
    const n = done.findIndex((one) => one !== undefined)
    expect(howMany(done, undefined)).toBe(15)
    expect(done[n]).toEqual({ owner: `p${n}`, removed: [] })
    const { owner, members: set } = await at.one.scopes.ownership(where.tenant, where.scope)
    expect([owner, ...set.toSorted()]).toEqual([`p${n}`, `m${n}`, `n${n}`])
  })

  test('an owner that sets them 16 times at once gets the members of one of these', async () => {
    const where = somewhere()
    await at.one.scopes.setMembers(members({ ...where, members: ['m0', 'n0'] }), [])
    const done = await together(at, 16, (store, n) =>
      store.scopes.setMembers(members({ ...where, known: 'ann', members: [`m${n + 1}`, `n${n + 1}`] }), []),
    )
    // Each but the last set is removed by exactly one other.
    const removed = done.flatMap((one) => one?.removed ?? [])
    expect([removed.length, new Set(removed).size]).toEqual([32, 32])
    const { members: last } = await at.one.scopes.ownership(where.tenant, where.scope)
    expect(times(17).map((n) => [`m${n}`, `n${n}`])).toContainEqual(last.toSorted())
    expect(removed).not.toContain(last[0])
  })
}

const placed = (agentId: string) => ({
  agentId,
  sandboxId: fresh('sbx'),
  provider: 'local',
  isolation: 'none',
  network: null,
  incarnation: 1,
})
