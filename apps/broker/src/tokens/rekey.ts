import { type Rekeyed, reseal } from '../host/reseal.ts'
import { seal, unseal } from '../host/sealing.ts'
import type { SecretKeys } from '../host/secret-keys.ts'
import type { SealedKeyStore } from '../store/sealed-key-store.ts'
import { contextOf } from './sealed-keys.ts'

/** Seals every signing key in use under the first key of the secret key file. Repeatable, beside running brokers. */
export async function rekey(store: SealedKeyStore, secrets: SecretKeys): Promise<Rekeyed> {
  // A withdrawn key is never opened again, so that it stays under the old key and ends with it.
  const inUse = (await store.list()).filter(({ withdrawnAt }) => withdrawnAt === null)
  return await reseal(inUse, secrets, {
    nameOf: ({ kid }) => kid,
    open: (row) => unseal(secrets, row, contextOf(row)),
    replace: (row, secret) => store.reseal(row.kid, row.sealed, seal(secrets, secret, contextOf(row))),
  })
}
