import type { SecretKeys } from '../host/secret-keys.ts'
import type { SecretRecord, SecretStore } from '../store/secret-store.ts'
import { openValue, sealValue } from './sealed-value.ts'

export type ResealedSecrets = { resealed: number; already: number; changed: number; unreadable: { kid: string; kekId: string }[] }

const PAGE = 100

/** Seals every secret under the first key of the secret key file. Repeatable, beside running brokers. */
export async function resealSecrets(store: Pick<SecretStore, 'page' | 'reseal'>, keys: SecretKeys): Promise<ResealedSecrets> {
  const done: ResealedSecrets = { resealed: 0, already: 0, changed: 0, unreadable: [] }
  let after: SecretRecord | null = null
  for (;;) {
    const rows: SecretRecord[] = await store.page(after, PAGE)
    for (const row of rows) {
      let value: string
      try {
        value = openValue(keys, row)
      } catch {
        done.unreadable.push({ kid: row.name, kekId: row.kekId })
        continue
      }
      if (row.kekId === keys.first.id) done.already++
      else if (await store.reseal(row, row.sealed, sealValue(keys, row, value))) done.resealed++
      else done.changed++
    }
    after = rows.at(-1) ?? null
    if (after === null) return done
  }
}
