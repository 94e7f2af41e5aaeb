import { expect, test } from 'vitest'
import { newSession } from '../../../../support/crowd.ts'
import type { Stores } from '../../exam.ts'
import { ALL_AUDIT, active, audited, auditOf, create, fresh, listing } from '../../parts.ts'

/** U+0000, and half a surrogate pair: a database may hold them or not. */
const ODD = ['nul \0', 'half \ud800']

/** What `call` gives, or the refusal of a text that the database cannot hold: a client has sent it, so it is no failure of the broker. */
const orRefused = <T>(call: Promise<T>, refused: T): Promise<T> =>
  call.catch((thrown: { code?: string }) => (thrown.code === 'INVALID_REQUEST' ? refused : Promise.reject(thrown)))

export function oddTextCases(at: Stores): void {
  test('what is not there reads as nothing, whatever it is asked for by', async () => {
    for (const id of ['', 'nobody', "'; DROP TABLE sessions; --", '$1', '?', ...ODD]) {
      const scope = { type: 'thread', id } as const
      const lookUps: Promise<unknown>[] = [
        at.one.sessions.byId(id),
        at.one.sessions.live(id, scope),
        at.one.agents.byId(id),
        at.one.agents.byInstall(id),
        at.one.keys.byHash(id),
        at.one.enrollTokens.byHash(id),
        at.one.grants.find(id, id),
        at.one.idempotency.find(id, id, id, id, 0),
        at.one.e2b.byId(id),
        at.one.e2b.byToken(id),
        at.one.environments.of(id),
      ]
      expect(await Promise.all(lookUps.map((lookUp) => orRefused(lookUp, undefined)))).toEqual(lookUps.map(() => undefined))
      const lists: Promise<unknown[]>[] = [
        at.one.events.after(id, 0, 10),
        at.one.sessions.list(listing(id, { principal: id, scopeId: id, label: { key: id, value: id } })),
        at.one.sessions.keptOf(id, scope),
        at.one.audit.query({ ...ALL_AUDIT, event: id, caller: id }),
        at.one.keys.list(id),
        at.one.boxErrors.of(id),
      ]
      expect(await Promise.all(lists.map((list) => orRefused(list, [])))).toEqual(lists.map(() => []))
      expect(await orRefused(at.one.challenges.take(id, 0), false)).toBe(false)
      expect(await orRefused(at.one.keys.revoke(id, 1, []), false)).toBe(false)
    }
  })

  test('a session whose label is odd is made or refused, and is in nobody’s way', async () => {
    const tenant = fresh('tenant')
    const label = { key: 'a', value: 'b' }
    for (const text of ODD) {
      const odd = newSession({ tenant, labels: { [text]: 'x', a: text } })
      const { outcome } = await orRefused(create(at.one, odd), { outcome: 'exists' })
      expect((await at.other.sessions.byId(odd.id)) !== undefined).toBe(outcome === 'created')
    }
    const plain = await active(at.one, { tenant, labels: { a: 'b' } })
    expect(await at.other.sessions.list(listing(tenant, { label }))).toMatchObject([{ id: plain.id }])
    expect(await at.other.counts.liveOf(tenant, label)).toEqual({ active: 1 })
    const more = newSession({ tenant, labels: { a: 'b' } })
    expect(await create(at.one, more, { labelQuota: { ...label, max: 1 } })).toEqual({ outcome: 'quota', max: 1 })
  })

  test('members and audit entries that are odd are stored or refused, and others are stored', async () => {
    const [tenant, mark] = [fresh('tenant'), fresh('mark')]
    const scope = { type: 'thread', id: mark } as const
    const set = (members: string[], known: string | null) =>
      at.one.scopes.setMembers({ tenant, scope, known, owner: 'ann', members, now: 1 }, [audited(mark)])
    await set(['bob'], null)
    for (const text of ODD) await orRefused(set(['bob', text], 'ann'), undefined)
    expect(await at.other.scopes.ownership(tenant, scope)).toMatchObject({ owner: 'ann', members: expect.arrayContaining(['bob']) })
    for (const text of ODD) await orRefused(at.one.audit.append([audited(mark, { caller: text, ip: text })]), undefined)
    await at.one.audit.append([audited(mark, { code: 'last' })])
    expect((await auditOf(at.other, mark))[0]).toMatchObject({ code: 'last' })
  })
}
