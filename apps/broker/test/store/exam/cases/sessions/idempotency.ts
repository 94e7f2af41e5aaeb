import { expect, test } from 'vitest'
import { IDEMPOTENCY_MS } from '../../../../../src/domain/idempotency.ts'
import type { IdempotencyRecord } from '../../../../../src/store/session-store.ts'
import { newSession } from '../../../../support/crowd.ts'
import type { Stores } from '../../exam.ts'
import { active, after, audited, auditOf, create, fresh, howMany, together } from '../../parts.ts'

const REUSED = { code: 'BINDING_CONFLICT' }

export function idempotencyCases(at: Stores): void {
  const made = (tenant: string, fields: Partial<IdempotencyRecord> = {}) => {
    const session = newSession({ tenant })
    const expiresAt = Date.now() + IDEMPOTENCY_MS
    const record = { tenant, principal: 'me', route: 'r', key: 'k', bodyHash: 'h', sessionId: session.id, expiresAt, ...fields }
    return { session, record }
  }
  type Made = ReturnType<typeof made>
  const write = (store: Stores['one'], { session, record }: Made) =>
    create(store, session, {}, { idempotency: record, audit: [audited(session.id)] })
  const find = (tenant: string, fields: Partial<IdempotencyRecord> = {}, now = Date.now()) => {
    const { principal, route, key } = { principal: 'me', route: 'r', key: 'k', ...fields }
    return at.other.idempotency.find(tenant, principal, route, key, now)
  }

  test('[C-15] a key is found by its tenant, principal, route and name, until it expires', async () => {
    const tenant = fresh('tenant')
    const one = made(tenant)
    await write(at.one, one)
    expect(await find(tenant)).toEqual(one.record)
    for (const fields of [{ principal: 'you' }, { route: 's' }, { key: 'K' }]) expect(await find(tenant, fields)).toBeUndefined()
    expect(await find(fresh('tenant'))).toBeUndefined()
    expect(await find(tenant, {}, one.record.expiresAt - 1)).toBeDefined()
    expect(await find(tenant, {}, one.record.expiresAt)).toBeUndefined()
  })

  test('the first record of a key stays; another body undoes its change', async () => {
    const tenant = fresh('tenant')
    const [first, same, another] = [made(tenant), made(tenant), made(tenant, { bodyHash: 'x' })]
    await write(at.one, first)
    expect(await write(at.other, same)).toEqual({ outcome: 'created' })
    await expect(write(at.other, another)).rejects.toMatchObject(REUSED)
    expect(await find(tenant)).toEqual(first.record)
    expect(await at.one.sessions.byId(another.session.id)).toBeUndefined()
    expect(await auditOf(at.one, another.session.id)).toEqual([])
    expect(await at.one.scopes.ownership(tenant, another.session.scope)).toMatchObject({ owner: null })
    const session = await active(at.one, { tenant })
    const touch = at.one.sessions.save(session, after(session, { type: 'touched' }), { idempotency: another.record })
    await expect(touch).rejects.toMatchObject(REUSED)
    expect(await at.one.sessions.byId(session.id)).toEqual(session)
  })

  test('[C-14] a key that has expired is free, and is purged', async () => {
    const tenant = fresh('tenant')
    const now = Date.now()
    const old = made(tenant, { expiresAt: now - 1 })
    await write(at.one, old)
    const next = made(tenant, { bodyHash: 'x', expiresAt: now + IDEMPOTENCY_MS })
    await write(at.other, next)
    expect(await find(tenant)).toEqual(next.record)
    await write(at.one, made(tenant, { key: 'k2', expiresAt: now + 500 }))
    await at.one.idempotency.purge(now + 500)
    expect(await find(tenant, { key: 'k2' }, 0)).toBeUndefined()
    expect(await find(tenant)).toEqual(next.record)
  })

  test('16 at once with one key and one body: one record, which all see', async () => {
    const tenant = fresh('tenant')
    const seen = await together(at, 16, async (store) => {
      const one = made(tenant)
      expect(await write(store, one)).toEqual({ outcome: 'created' })
      return (await store.idempotency.find(tenant, 'me', 'r', 'k', Date.now()))?.sessionId
    })
    expect(new Set(seen).size).toBe(1)
    expect(seen[0]).toEqual(expect.any(String))
  })

  test('16 at once with one key and 16 bodies: one is made', async () => {
    const tenant = fresh('tenant')
    const outcomes = await together(at, 16, async (store, n) => {
      const one = made(tenant, { bodyHash: `${n}` })
      const outcome = await write(store, one).then(
        ({ outcome }) => outcome,
        (thrown: { code: string }) => thrown.code,
      )
      expect((await store.sessions.byId(one.session.id)) !== undefined).toBe(outcome === 'created')
      return outcome
    })
    expect([howMany(outcomes, 'created'), howMany(outcomes, REUSED.code)]).toEqual([1, 15])
    expect(await find(tenant)).toMatchObject({ bodyHash: `${outcomes.indexOf('created')}` })
  })
}
