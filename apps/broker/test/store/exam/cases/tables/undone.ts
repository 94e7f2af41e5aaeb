import { expect, test } from 'vitest'
import type { AgentRecord, KeyRecord } from '../../../../../src/store/store.ts'
import { newSession } from '../../../../support/crowd.ts'
import type { Stores } from '../../exam.ts'
import { active, after, audited, auditOf, create, ended, events, fresh, RELEASED, times, told, UNWRITABLE } from '../../parts.ts'

const key = (): KeyRecord => ({
  ...{ id: fresh('key'), hash: fresh('hash'), name: '', tenant: fresh('tenant'), principal: 'ann', actorType: 'human', role: 'user' },
  ...{ rights: [], capabilities: null, createdAt: 1, revokedAt: null },
})
const enrollToken = () => ({
  ...{
    id: fresh('ent'),
    hash: fresh('hash'),
    name: '',
    oneUse: true,
    createdAt: 1,
    expiresAt: null,
    usedAt: null,
    usedBy: null,
    revokedAt: null,
  },
})
const agent = (fields: Partial<AgentRecord> = {}): AgentRecord => ({
  ...{ id: fresh('agt'), installId: fresh('install'), publicKey: 'k', enrollTokenId: null, instanceId: 'i', tokenHash: 'h', publicUrl: '' },
  ...{ controlUrl: '', dataplaneUrl: '', previewDomain: null, relay: 'auto', version: '', clockDriftMs: 0, registeredAt: 1, lastSeenAt: 1 },
  provider: { name: null, isolation: null, available: false, reason: null, suspend: [] },
  capacity: null,
  ...fields,
})

export function undoneCases(at: Stores): void {
  /** Each is written with an entry that is good, and one that is not. */
  const audit = () => [audited('undone'), UNWRITABLE]

  test('[C-72] sessions and their scopes', async () => {
    const session = newSession({ tenant: fresh('tenant') })
    await expect(create(at.one, session, {}, { audit: audit(), events: [told(1)] })).rejects.toThrow()
    expect(await at.other.sessions.byId(session.id)).toBeUndefined()
    expect(await at.other.scopes.ownership(session.tenant, session.scope)).toMatchObject({ owner: null })
    expect(await at.other.counts.liveOf(session.tenant, null)).toEqual({})
    expect((await events(at.other, session.id)).ids).toEqual([])
    const live = await active(at.one)
    const save = at.one.sessions.save(live, after(live, RELEASED), { audit: audit(), events: [told(1)], workspace: 'hold' })
    await expect(save).rejects.toThrow()
    const touch = at.one.sessions.save(live, after(live, { type: 'touched' }), { audit: audit(), events: [told(1)] })
    await expect(touch).rejects.toThrow()
    expect(await at.other.sessions.byId(live.id)).toEqual(live)
    expect(await at.other.counts.liveOf(live.tenant, null)).toEqual({ active: 1 })
    expect((await events(at.other, live.id)).ids).toEqual([])
    const { tenant, scope } = await ended(at.one)
    await expect(at.one.sessions.forgetScope(tenant, scope, 'me', audit())).rejects.toThrow()
    const set = { tenant, scope, known: 'me', owner: 'me', members: ['bob'], now: 1 }
    await expect(at.one.scopes.setMembers(set, audit())).rejects.toThrow()
    expect(await at.other.scopes.ownership(tenant, scope)).toEqual({ owner: 'me', members: [] })
    const grant = { sessionId: live.id, actor: 'a', principal: 'a', grantedAt: 1, capabilities: null, carried: [], narrowedTo: null }
    await expect(at.one.grants.put([{ ...grant, narrowedAt: null }], audit())).rejects.toThrow()
    expect(await at.other.grants.find(live.id, 'a')).toBeUndefined()
  })

  test('[C-72] keys, enroll tokens and agents', async () => {
    const [made, refused] = [key(), key()]
    await at.one.keys.insert(made, [])
    await expect(at.one.keys.insert(refused, audit())).rejects.toThrow()
    await expect(at.one.keys.revoke(made.id, 1, audit())).rejects.toThrow()
    expect([await at.other.keys.byId(made.id), await at.one.keys.byId(made.id), await at.one.keys.byId(refused.id)]).toEqual([
      made,
      made,
      undefined,
    ])
    const [token, other] = [enrollToken(), enrollToken()]
    await at.one.enrollTokens.insert(token, [])
    await expect(at.one.enrollTokens.insert(other, audit())).rejects.toThrow()
    await expect(at.one.enrollTokens.revoke(token.id, 1, audit())).rejects.toThrow()
    const one = agent({ enrollTokenId: token.id })
    await expect(at.one.agents.register(one, undefined, audit())).rejects.toThrow()
    expect(await at.other.enrollTokens.byHash(token.hash)).toEqual(token)
    expect(await at.other.enrollTokens.byHash(other.hash)).toBeUndefined()
    expect(await at.other.agents.byInstall(one.installId)).toBeUndefined()
    expect(await at.one.agents.register(one, undefined, [])).toMatchObject({ outcome: 'registered' })
    await expect(at.one.agents.forgetKey(one.id, audit())).rejects.toThrow()
    expect(await at.other.agents.byId(one.id)).toMatchObject({ publicKey: 'k' })
  })

  test('[C-72] nothing of what is undone is recorded, and what others write at that moment is', async () => {
    expect(await auditOf(at.one, 'undone')).toEqual([])
    const session = await active(at.one)
    const saves = times(16).map((n) =>
      at.one.sessions.save(session, after(session, { type: 'touched' }), {
        events: [told(n)],
        audit: n % 4 === 0 ? audit() : [audited(session.id, { code: `${n}` })],
      }),
    )
    const done = (await Promise.allSettled(saves)).map(({ status }) => status === 'fulfilled')
    expect(done).toEqual(times(16).map((n) => n % 4 !== 0))
    expect(await events(at.other, session.id)).toMatchObject({ ids: times(12).map((n) => n + 1) })
    expect(await auditOf(at.other, session.id)).toHaveLength(12)
    expect(await auditOf(at.other, 'undone')).toEqual([])
  })
}
