import { CAPABILITIES, type Capability } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import type { GrantRecord } from '../../../../../src/store/session-store.ts'
import type { Store } from '../../../../../src/store/store.ts'
import type { Stores } from '../../exam.ts'
import { active, against, audited, auditOf, change, fresh, RELEASED, read, times, together } from '../../parts.ts'

const grant = (sessionId: string, fields: Partial<GrantRecord> = {}): GrantRecord => ({
  sessionId,
  actor: 'ann',
  principal: 'ann',
  grantedAt: 100,
  capabilities: ['exec'],
  carried: ['exec', 'fs_read'],
  narrowedTo: null,
  narrowedAt: null,
  ...fields,
})
const NOTHING_AT = (narrowedAt: number) => (held: GrantRecord) => ({ ...held, narrowedTo: [], narrowedAt })

export function grantCases(at: Stores): void {
  const put = (store: Store, ...grants: GrantRecord[]) => store.grants.put(grants, [])

  test('[4-75] a grant reads as it was put, by its actor, and its session tells that it has some', async () => {
    const { id, tenant, scope } = await active(at.one)
    const all = [
      grant(id),
      grant(id, { actor: 'bob', principal: 'bob', capabilities: null, carried: [] }),
      grant(id, { actor: 'cat "票"', principal: 'cat', capabilities: [], narrowedTo: ['fs_read'], narrowedAt: 7 }),
    ]
    expect(await read(at.other, id)).toMatchObject({ hasGrants: false })
    await at.one.grants.put(all, [audited(id)])
    for (const one of all) expect(await at.other.grants.find(id, one.actor)).toEqual(one)
    expect(await at.one.grants.find(id, 'dan')).toBeUndefined()
    expect(await at.one.grants.find(fresh('ses'), 'ann')).toBeUndefined()
    expect(await auditOf(at.one, id)).toHaveLength(1)
    for (const session of [await read(at.other, id), await at.other.sessions.live(tenant, scope)])
      expect(session).toMatchObject({ hasGrants: true })
  })

  test('what is put is united with what was asked for before, and does not undo what was narrowed later', async () => {
    const { id } = await active(at.one)
    const find = () => at.other.grants.find(id, 'ann')
    await put(at.one, grant(id, { narrowedTo: ['exec'], narrowedAt: 50 }))
    await put(at.other, grant(id, { capabilities: ['fs_read'], carried: ['shell'], grantedAt: 200, narrowedTo: [], narrowedAt: 40 }))
    const united = CAPABILITIES.filter((one) => one === 'exec' || one === 'fs_read')
    expect(await find()).toEqual(
      grant(id, { capabilities: united, carried: ['shell'], grantedAt: 200, narrowedTo: ['exec'], narrowedAt: 50 }),
    )
    await put(at.one, grant(id, { capabilities: [], narrowedTo: ['fs_read'], narrowedAt: 60 }))
    expect(await find()).toMatchObject({ capabilities: united, narrowedTo: ['fs_read'], narrowedAt: 60 })
    await put(at.other, grant(id))
    expect(await find()).toMatchObject({ capabilities: united, narrowedTo: ['fs_read'], narrowedAt: 60 })
    await put(at.other, grant(id, { capabilities: null }))
    await put(at.other, grant(id))
    expect(await find()).toMatchObject({ capabilities: null })
  })

  test('the last one that a principal negotiated is found, and those of an agent that were narrowed lately', async () => {
    const agentId = fresh('agt')
    const [{ id }, elsewhere] = [await active(at.one, { agentId }), await active(at.one)]
    const narrowed = (actor: string, narrowedAt: number) => grant(id, { actor, principal: 'bob', narrowedTo: [], narrowedAt })
    await put(at.one, grant(id, { actor: 'x', grantedAt: 300 }), grant(id, { actor: 'y', grantedAt: 400 }), grant(id, { actor: 'z' }))
    await put(at.one, grant(elsewhere.id, { narrowedTo: [], narrowedAt: 99 }), narrowed('p', 10), narrowed('q', 11), narrowed('r', 12))
    expect(await at.other.grants.lastBy(id, 'ann')).toMatchObject({ actor: 'y' })
    expect(await at.other.grants.lastBy(id, 'cat')).toBeUndefined()
    expect(await at.other.grants.lastBy(elsewhere.id, 'bob')).toBeUndefined()
    expect((await at.other.grants.narrowedOn(agentId, 10)).map(({ actor }) => actor).toSorted()).toEqual(['q', 'r'])
    expect(await at.other.grants.narrowedOn(agentId, 12)).toEqual([])
  })

  test('[C-57] a withdrawal narrows all that the principal negotiated, its own first, and no others', async () => {
    const { id } = await active(at.one)
    await put(at.one, grant(id, { actor: 'dan', principal: 'bob' }), grant(id), grant(id, { actor: 'bob', principal: 'ann' }))
    const own = grant(id, { actor: 'bob', principal: 'bob', capabilities: null })
    const made = await at.other.grants.withdraw(own, NOTHING_AT(70))
    // What stands for bob himself, whoever negotiated it, and what bob negotiated for others.
    expect(made.map(({ actor, narrowedTo }) => [actor, narrowedTo])).toEqual([
      ['bob', []],
      ['dan', []],
    ])
    expect(await at.one.grants.find(id, 'bob')).toMatchObject({ principal: 'ann', narrowedTo: [], narrowedAt: 70 })
    expect(await at.one.grants.find(id, 'dan')).toMatchObject({ narrowedTo: [], narrowedAt: 70 })
    expect(await at.one.grants.find(id, 'ann')).toMatchObject({ narrowedTo: null })
    const nobody = grant(id, { actor: 'eve', principal: 'eve' })
    expect(await at.one.grants.withdraw(nobody, NOTHING_AT(71))).toEqual([{ ...nobody, narrowedTo: [], narrowedAt: 71 }])
    expect(await at.other.grants.find(id, 'eve')).toMatchObject({ narrowedAt: 71 })
  })

  test('grants go with the session when it is purged', async () => {
    const { id } = await active(at.one)
    await put(at.one, grant(id))
    await change(at.one, id, RELEASED)
    expect(await at.other.grants.find(id, 'ann')).toBeDefined()
    await at.other.sessions.purge(8e15, 100)
    expect(await at.one.grants.find(id, 'ann')).toBeUndefined()
  })

  test('16 requests at once for one actor: each gets what it asked for', async () => {
    const { id } = await active(at.one)
    const asked = times(16).map((n) => CAPABILITIES[n % CAPABILITIES.length] as Capability)
    await together(at, 16, (store, n) => put(store, grant(id, { capabilities: [asked[n] as Capability] })))
    expect(await at.one.grants.find(id, 'ann')).toMatchObject({ capabilities: CAPABILITIES.filter((one) => asked.includes(one)) })
    const session = await active(at.one)
    const saved = await together(at, 16, (store, n) =>
      store.sessions.save(session, session, { grant: grant(session.id, { capabilities: [asked[n] as Capability] }) }),
    )
    expect(saved).not.toContain(false)
    expect(await at.one.grants.find(session.id, 'ann')).toMatchObject({ capabilities: CAPABILITIES.filter((one) => asked.includes(one)) })
  })

  test('[C-57] a withdrawal and requests at once: what was known before it is narrowed whichever comes first', async () => {
    await against(at, async (mine, theirs) => {
      const { id } = await active(mine)
      const dan = grant(id, { actor: 'dan', principal: 'bob' })
      await put(mine, dan)
      const bob = grant(id, { actor: 'bob', principal: 'bob' })
      await Promise.all([
        mine.grants.withdraw(bob, NOTHING_AT(70)),
        put(theirs, { ...bob, capabilities: ['shell'] }),
        put(theirs, { ...dan, capabilities: ['shell'] }),
      ])
      const [ofBob, ofDan] = [await mine.grants.find(id, 'bob'), await mine.grants.find(id, 'dan')]
      expect([ofBob, ofDan]).toMatchObject([
        { narrowedTo: [], narrowedAt: 70 },
        { narrowedTo: [], narrowedAt: 70 },
      ])
      expect(ofBob?.capabilities).toContain('shell')
      expect(ofDan?.capabilities).toEqual(expect.arrayContaining(['exec', 'shell']))
    })
  })

  test('[C-57] two withdrawals at once: the later moment stands', async () => {
    await against(at, async (mine, theirs) => {
      const { id } = await active(mine)
      await Promise.all([mine.grants.withdraw(grant(id), NOTHING_AT(70)), theirs.grants.withdraw(grant(id), NOTHING_AT(80))])
      expect(await mine.grants.find(id, 'ann')).toMatchObject({ narrowedTo: [], narrowedAt: 80 })
    })
  })
}
