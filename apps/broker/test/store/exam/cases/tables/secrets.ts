import { expect, test } from 'vitest'
import type { AuditEntry, AuditFilter } from '../../../../../src/domain/audit-entry.ts'
import type { KeyRecord } from '../../../../../src/store/store.ts'
import type { Stores } from '../../exam.ts'
import { ALL_AUDIT, audited, auditOf, fresh, howMany, times, together } from '../../parts.ts'

const newKey = (fields: Partial<KeyRecord> = {}): KeyRecord => ({
  id: fresh('key'),
  hash: fresh('hash'),
  name: 'own "key" 票',
  tenant: fresh('tenant'),
  principal: 'ann',
  actorType: 'human',
  role: 'user',
  rights: ['act_as', 'release'],
  capabilities: null,
  createdAt: 100,
  revokedAt: null,
  ...fields,
})

export function secretCases(at: Stores): void {
  test('a key reads as it was made, by its hash and its id, at each store', async () => {
    const all = [
      newKey(),
      newKey({ capabilities: [], rights: [], role: 'operator', actorType: 'agent' }),
      newKey({ capabilities: ['exec'] }),
    ]
    for (const key of all) {
      await at.one.keys.insert(key, [audited(key.id)])
      expect(await at.other.keys.byHash(key.hash)).toEqual(key)
      expect(await at.other.keys.byId(key.id)).toEqual(key)
      expect(await auditOf(at.one, key.id)).toHaveLength(1)
    }
    expect(await at.one.keys.byHash(fresh('hash'))).toBeUndefined()
    const [first] = all
    const double = newKey({ hash: first?.hash ?? '' })
    await expect(at.other.keys.insert(double, [audited(double.id)])).rejects.toThrow()
    expect(await at.one.keys.byId(double.id)).toBeUndefined()
    expect(await auditOf(at.one, double.id)).toEqual([])
  })

  test('keys are listed newest first, of a tenant or of all, and counted while they are good', async () => {
    const tenant = fresh('tenant')
    const keys = [
      newKey({ tenant, createdAt: 1 }),
      newKey({ tenant, createdAt: 3 }),
      newKey({ tenant, createdAt: 2 }),
      newKey({ createdAt: 4 }),
    ]
    const before = await at.one.keys.countValid()
    for (const key of keys) await at.one.keys.insert(key, [])
    const [oldest, newest, middle, elsewhere] = keys
    expect(await at.other.keys.list(tenant)).toEqual([newest, middle, oldest])
    const own = new Set(keys.map(({ id }) => id))
    expect((await at.other.keys.list(null)).filter(({ id }) => own.has(id))).toEqual([elsewhere, newest, middle, oldest])
    expect(await at.other.keys.countValid()).toBe(before + 4)
    await at.one.keys.revoke(newest?.id ?? '', 9, [])
    expect(await at.other.keys.countValid()).toBe(before + 3)
    expect(await at.other.keys.list(tenant)).toEqual([{ ...newest, revokedAt: 9 }, middle, oldest])
  })

  test('a key that 8 revoke at once is revoked once, and for all', async () => {
    const key = newKey()
    await at.one.keys.insert(key, [])
    const revoked = await together(at, 8, async (store, n) => {
      const done = await store.keys.revoke(key.id, 50 + n, [audited(key.id)])
      expect((await store.keys.byHash(key.hash))?.revokedAt).not.toBeNull()
      return done
    })
    expect(howMany(revoked, true)).toBe(1)
    expect(await at.other.keys.byId(key.id)).toEqual({ ...key, revokedAt: 50 + revoked.indexOf(true) })
    expect(await at.one.keys.revoke(fresh('key'), 1, [audited(key.id)])).toBe(false)
    expect(await auditOf(at.one, key.id)).toHaveLength(1)
  })

  test('[C-50] a challenge is good at each broker, once, until its end', async () => {
    const [nonce, old] = [fresh('nonce'), fresh('nonce')]
    await at.one.challenges.give(nonce, 2000, 1000)
    await at.one.challenges.give(old, 2000, 1000)
    expect(await at.other.challenges.take(fresh('nonce'), 1000)).toBe(false)
    expect(await at.other.challenges.take(old, 2000)).toBe(false)
    expect(howMany(await together(at, 8, (store) => store.challenges.take(nonce, 1999)), true)).toBe(1)
    expect(await at.one.challenges.take(nonce, 1000)).toBe(false)
  })

  test('[C-50] ten thousand challenges are kept; those that end first make room, and expired ones go before them', async () => {
    await at.one.challenges.give('expires', 5000, 1000)
    // Makes room for nothing: all that came before has expired.
    await at.one.challenges.give('first', 10_000, 6000)
    await at.database.sql(`INSERT INTO agent_challenges (nonce, until)
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9998) SELECT 'filler-' || i, 20000 + i FROM n`)
    await at.one.challenges.give('last', 90_000, 6000)
    expect(await at.other.challenges.take('first', 6000)).toBe(true)
    await at.other.challenges.give('again', 90_000, 6000)
    await at.one.challenges.give('more', 90_000, 6000)
    expect(await at.one.challenges.take('filler-1', 6000)).toBe(false)
    for (const nonce of ['filler-2', 'filler-9998', 'last', 'again', 'more'])
      expect(await at.one.challenges.take(nonce, 6000), nonce).toBe(true)
  })

  const entry = (sessionId: string, fields: Partial<AuditEntry> = {}): AuditEntry => audited(sessionId, fields)
  const query = (filter: Partial<AuditFilter>) => at.other.audit.query({ ...ALL_AUDIT, ...filter })

  test('[C-72] an entry reads as it was written', async () => {
    const sessionId = fresh('ses')
    const full: AuditEntry = {
      ...entry(sessionId, { ts: 5, requestId: 'r', tenant: 't', caller: 'c 票', actor: 'a', threadId: 'th', sandboxId: 'sb' }),
      ...{ outcome: 'refused', code: 'X', ip: '::1', tokenHash: 'h', data: { n: 1.5, list: ['\0', '\ud800', null], of: { a: true } } },
    }
    const bare = entry(sessionId, { ts: 6, caller: null })
    await at.one.audit.append([full, bare])
    const rows = await query({ sessionId })
    expect(rows).toEqual([bare, full].map((one) => ({ ...one, id: expect.any(Number) })))
    expect(rows[0]?.id).toBeGreaterThan(rows[1]?.id ?? Number.POSITIVE_INFINITY)
  })

  test('[C-72] entries are found by each filter, by several, and page after page, newest first', async () => {
    const [tenant, sessionId, threadId, caller] = [fresh('tenant'), fresh('ses'), fresh('thread'), fresh('caller')]
    const fields = { tenant, threadId, caller }
    for (const ts of [10, 30, 20, 30, 40]) await at.one.audit.append([entry(sessionId, { ...fields, ts })])
    await at.one.audit.append([entry(fresh('ses'), { ...fields, ts: 25, event: 'key.create' }), entry(sessionId, { ts: 35 })])
    const found = async (filter: Partial<AuditFilter>) => (await query(filter)).map(({ ts }) => ts)
    const arrived = [40, 30, 20, 30, 10]
    for (const filter of [
      { tenant, sessionId },
      { sessionId, threadId },
      { sessionId, caller },
      { tenant, event: 'sandbox.session.read' },
    ])
      expect(await found(filter)).toEqual(arrived)
    for (const filter of [{ tenant }, { threadId }, { caller }, { tenant, caller, threadId }])
      expect(await found(filter)).toEqual([25, ...arrived])
    expect(await found({ sessionId })).toEqual([35, ...arrived])
    expect(await found({ tenant, event: 'key.create' })).toEqual([25])
    expect(await found({ caller: 'nobody' })).toEqual([])
    // Within a span of time they are in the order of their time.
    expect(await found({ tenant, since: 20 })).toEqual([40, 30, 30, 25, 20])
    expect(await found({ tenant, until: 30 })).toEqual([30, 30, 25, 20, 10])
    expect(await found({ sessionId, since: 25, until: 35 })).toEqual([35, 30, 30])
    for (const filter of [{ sessionId }, { tenant }, { tenant, since: 10 }, { tenant, until: 40 }, { sessionId, since: 0 }]) {
      const all = (await query(filter)).map(({ id }) => id)
      const seen: number[] = []
      for (let before: number | null = null; ; ) {
        const page = await query({ ...filter, limit: 2, before })
        seen.push(...page.map(({ id }) => id))
        if (page.length < 2) break
        before = page.at(-1)?.id ?? null
      }
      expect(seen).toEqual(all)
    }
  })

  test('[C-72] what 16 append at once is all there, each entry once, and nobody can change or remove it', async () => {
    const sessionId = fresh('ses')
    const three = (n: number) => times(3).map((i) => entry(sessionId, { code: `${n}-${i}` }))
    await together(at, 16, (store, n) => store.audit.append(three(n)))
    const rows = await query({ sessionId })
    expect(rows.map(({ code }) => code).toSorted()).toEqual(
      times(16)
        .flatMap((n) => three(n).map(({ code }) => code))
        .toSorted(),
    )
    expect(new Set(rows.map(({ id }) => id)).size).toBe(48)
    for (const statement of [
      `UPDATE audit SET code = 'x' WHERE session_id = '${sessionId}'`,
      `DELETE FROM audit WHERE session_id = '${sessionId}'`,
    ])
      await expect(at.database.sql(statement)).rejects.toThrow(/append-only/)
    expect(await query({ sessionId })).toEqual(rows)
  })
}
