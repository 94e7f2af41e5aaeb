import { expect, test } from 'vitest'
import type { SealedKeyRow, SealedKeyStore } from '../../../../../src/store/sealed-key-store.ts'
import type { Store } from '../../../../../src/store/store.ts'
import type { Stores } from '../../exam.ts'
import { fresh, howMany, together } from '../../parts.ts'

const newKey = (fields: Partial<SealedKeyRow> = {}): SealedKeyRow => ({
  ...{ kid: fresh('kid'), jwk: '{"kty":"OKP"}', activeAt: 2, createdAt: 1, withdrawnAt: null, sealed: fresh('sealed'), kekId: 'kek_1' },
  ...fields,
})

const keysOf = ({ signingKeys }: Store): SealedKeyStore => signingKeys ?? expect.fail('the store keeps no signing keys')

/** Of a database that keeps signing keys. */
export function signingKeyCases(at: Stores): void {
  const kids = async () => (await keysOf(at.one).list()).map(({ kid }) => kid)

  test('a row reads as it was inserted, until it is withdrawn, and is gone when it is removed', async () => {
    const [first, second] = [newKey(), newKey({ withdrawnAt: 7 })]
    for (const row of [first, second]) expect(await keysOf(at.one).insert(row, await kids())).toBe(true)
    expect(await keysOf(at.other).list()).toEqual(expect.arrayContaining([first, second]))
    await keysOf(at.other).withdraw([first.kid, second.kid, fresh('kid')], 9)
    expect(await keysOf(at.one).list()).toEqual(expect.arrayContaining([{ ...first, withdrawnAt: 9 }, second]))
    await keysOf(at.one).remove([first.kid, fresh('kid')])
    expect(await kids()).toEqual([second.kid])
  })

  test('of 8 brokers that add a key to the same ones at once one does', async () => {
    const seen = await kids()
    const rows = Array.from({ length: 8 }, () => newKey())
    const inserted = await together(at, 8, (store, n) => keysOf(store).insert(rows[n] ?? expect.fail(), seen))
    expect(howMany(inserted, true)).toBe(1)
    expect((await kids()).toSorted()).toEqual([...seen, rows[inserted.indexOf(true)]?.kid].toSorted())
    expect(await keysOf(at.other).insert(newKey(), seen)).toBe(false)
  })

  test('of 8 that seal a row anew at once one does, and what it wrote stands', async () => {
    const row = newKey()
    await keysOf(at.one).insert(row, await kids())
    const after = (n: number) => ({ sealed: `sealed ${n}`, kekId: `kek ${n}` })
    const sealed = await together(at, 8, (store, n) => keysOf(store).reseal(row.kid, row.sealed, after(n)))
    expect(howMany(sealed, true)).toBe(1)
    expect(await keysOf(at.other).list()).toContainEqual({ ...row, ...after(sealed.indexOf(true)) })
    expect(await keysOf(at.one).reseal(fresh('kid'), row.sealed, after(9))).toBe(false)
  })
}
