import { seal, unseal } from '../host/sealing.ts'
import type { SecretKeys } from '../host/secret-keys.ts'
import type { SealedKeyStore } from '../store/sealed-key-store.ts'
import { contextOf } from './sealed-keys.ts'

/**
 * `kekId`: the first key of the file. `changed`: rows that another program has changed meanwhile. `unreadable`: ids of signing keys that
 * no key of the file opens, and of the keys that they are sealed under; they are left as they are.
 */
export type Rekeyed = { kekId: string; resealed: number; already: number; changed: number; unreadable: { kid: string; kekId: string }[] }

/** Seals every signing key in use under the first key of the secret key file. Repeatable, beside running brokers. */
export async function rekey(store: SealedKeyStore, secrets: SecretKeys): Promise<Rekeyed> {
  const done: Rekeyed = { kekId: secrets.first.id, resealed: 0, already: 0, changed: 0, unreadable: [] }
  // A withdrawn key is never opened again, so that it stays under the old key and ends with it.
  for (const row of (await store.list()).filter(({ withdrawnAt }) => withdrawnAt === null)) {
    let secret: Buffer
    try {
      secret = unseal(secrets, row, contextOf(row))
    } catch {
      done.unreadable.push({ kid: row.kid, kekId: row.kekId })
      continue
    }
    if (row.kekId === done.kekId) done.already++
    else if (await store.reseal(row.kid, row.sealed, seal(secrets, secret, contextOf(row)))) done.resealed++
    else done.changed++
  }
  return done
}
