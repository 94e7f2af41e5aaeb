import { type Rekeyed, reseal } from '../host/reseal.ts'
import type { SecretKeys } from '../host/secret-keys.ts'
import type { SecretRecord, SecretStore } from '../store/secret-store.ts'
import { openValue, sealValue } from './sealed-value.ts'

const PAGE = 100

/** Seals every secret under the first key of the secret key file. Repeatable, beside running brokers. */
export const resealSecrets = (store: Pick<SecretStore, 'page' | 'reseal'>, keys: SecretKeys): Promise<Rekeyed> =>
  reseal(all(store), keys, {
    nameOf: ({ name }) => name,
    open: (row) => openValue(keys, row),
    replace: (row, value) => store.reseal(row, row.sealed, sealValue(keys, row, value)),
  })

async function* all(store: Pick<SecretStore, 'page'>): AsyncGenerator<SecretRecord> {
  let after: SecretRecord | null = null
  do {
    const rows: SecretRecord[] = await store.page(after, PAGE)
    yield* rows
    after = rows.at(-1) ?? null
  } while (after !== null)
}
