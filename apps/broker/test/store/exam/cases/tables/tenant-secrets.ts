import { expect, test } from 'vitest'
import type { SecretRecord } from '../../../../../src/store/secret-store.ts'
import type { Stores } from '../../exam.ts'
import { audited, auditOf, fresh, howMany, times, together, UNWRITABLE } from '../../parts.ts'

const newSecret = (fields: Partial<SecretRecord> = {}): SecretRecord => ({
  ...{ tenant: fresh('tenant'), name: fresh('secret'), version: 1, description: null, sealed: fresh('sealed'), kekId: 'kek_1' },
  ...{ createdAt: 100, createdBy: 'ann', updatedAt: 100 },
  ...fields,
})

/** The one after `secret`, sealed anew. */
const next = (secret: SecretRecord): SecretRecord => ({ ...secret, version: secret.version + 1, sealed: fresh('sealed'), updatedAt: 200 })

export function tenantSecretCases(at: Stores): void {
  test('a secret reads as it was put, and is replaced only by who knows its version', async () => {
    const first = newSecret({ description: 'of "a" 票' })
    const { tenant, name } = first
    expect(await at.one.secrets.put(first, null, 10, [audited(name)])).toBe('put')
    expect(await at.other.secrets.find(tenant, name)).toEqual(first)
    expect(await at.other.secrets.put(newSecret({ tenant, name }), null, 10, [audited(name)])).toBe('changed')
    const second = next(first)
    expect(await at.other.secrets.put(second, 1, 10, [audited(name)])).toBe('put')
    expect(await at.one.secrets.put(next(first), 1, 10, [audited(name)])).toBe('changed')
    expect(await at.one.secrets.find(tenant, name)).toEqual(second)
    expect(await at.one.secrets.find(fresh('tenant'), name)).toBeUndefined()
    // What was not written has no entry.
    expect(await auditOf(at.one, name)).toHaveLength(2)
  })

  test('a removed secret is gone, at once and once', async () => {
    const secret = newSecret()
    const { tenant, name } = secret
    await at.one.secrets.put(secret, null, 10, [])
    expect(await at.one.secrets.remove(fresh('tenant'), name, [audited(name)])).toBe(false)
    const removed = await together(at, 8, (store) => store.secrets.remove(tenant, name, [audited(name)]))
    expect([howMany(removed, true), (await auditOf(at.one, name)).length]).toEqual([1, 1])
    expect(await at.other.secrets.find(tenant, name)).toBeUndefined()
    expect(await at.other.secrets.put(next(secret), 1, 10, [])).toBe('changed')
  })

  test('a tenant lists its own in the order of their names, page after page, and finds several by name', async () => {
    const tenant = fresh('tenant')
    const names = ['B', 'a', 'a-b', 'a.b', 'a_b', 'b', '9']
    for (const name of names) await at.one.secrets.put(newSecret({ tenant, name }), null, 10, [])
    await at.one.secrets.put(newSecret({ name: 'a' }), null, 10, [])
    const sorted = names.toSorted((a, b) => (a < b ? -1 : 1))
    const seen: string[] = []
    for (let after: string | null = null; ; ) {
      const page: SecretRecord[] = await at.other.secrets.list(tenant, after, 3)
      seen.push(...page.map(({ name }) => name))
      after = page.at(-1)?.name ?? null
      if (page.length < 3) break
    }
    expect(seen).toEqual(sorted)
    const found = await at.other.secrets.named(tenant, ['b', 'nowhere', 'a', "'; --"])
    expect(found.map(({ tenant: of, name }) => [of, name]).toSorted()).toEqual([
      [tenant, 'a'],
      [tenant, 'b'],
    ])
    expect(await at.other.secrets.named(tenant, [])).toEqual([])
  })

  test('of many that are added at once as many are as a tenant may have; each can still be replaced', async () => {
    const tenant = fresh('tenant')
    const outcomes = await together(at, 12, (store) => store.secrets.put(newSecret({ tenant }), null, 5, []))
    expect([howMany(outcomes, 'put'), howMany(outcomes, 'full')]).toEqual([5, 7])
    const [one] = await at.one.secrets.list(tenant, null, 10)
    expect(one && (await at.other.secrets.put(next(one), 1, 5, []))).toBe('put')
    expect(await at.one.secrets.put(newSecret(), null, 5, [])).toBe('put')
  })

  test('of 8 that set one at once, the first version or the next, one does', async () => {
    const secret = newSecret()
    const first = await together(at, 8, (store) => store.secrets.put({ ...secret, sealed: fresh('sealed') }, null, 100, []))
    expect([howMany(first, 'put'), howMany(first, 'changed')]).toEqual([1, 7])
    const second = await together(at, 8, (store) => store.secrets.put(next(secret), 1, 100, []))
    expect([howMany(second, 'put'), howMany(second, 'changed')]).toEqual([1, 7])
  })

  test('what is sealed is replaced while it is as it was read, through all tenants', async () => {
    const made = times(5).map(() => newSecret())
    for (const secret of made) await at.one.secrets.put(secret, null, 10, [])
    const all: SecretRecord[] = []
    for (let after: SecretRecord | null = null; ; ) {
      const page: SecretRecord[] = await at.other.secrets.page(after, 2)
      all.push(...page)
      after = page.at(-1) ?? null
      if (after === null) break
    }
    expect(all).toEqual(expect.arrayContaining(made))
    expect(new Set(all.map(({ tenant, name }) => `${tenant} ${name}`)).size).toBe(all.length)
    const [secret = newSecret()] = made
    const again = { sealed: fresh('sealed'), kekId: 'kek_2' }
    expect(await at.other.secrets.reseal(secret, secret.sealed, again)).toBe(true)
    expect(await at.one.secrets.reseal(secret, secret.sealed, { sealed: 'late', kekId: 'kek_2' })).toBe(false)
    expect(await at.one.secrets.find(secret.tenant, secret.name)).toEqual({ ...secret, ...again })
  })

  test('[C-72] a secret whose audit entry cannot be written is not set, and not removed', async () => {
    const secret = newSecret()
    const { tenant, name } = secret
    await expect(at.one.secrets.put(secret, null, 10, [UNWRITABLE])).rejects.toThrow()
    expect(await at.other.secrets.find(tenant, name)).toBeUndefined()
    await at.one.secrets.put(secret, null, 10, [])
    await expect(at.one.secrets.put(next(secret), 1, 10, [UNWRITABLE])).rejects.toThrow()
    await expect(at.one.secrets.remove(tenant, name, [UNWRITABLE])).rejects.toThrow()
    expect(await at.other.secrets.find(tenant, name)).toEqual(secret)
  })
}
