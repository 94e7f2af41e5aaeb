import { type SealContext, type Sealed, seal, unseal } from '../host/sealing.ts'
import type { SecretKeys } from '../host/secret-keys.ts'
import type { SecretRecord } from '../store/secret-store.ts'

/** Which value it is: what is sealed opens for this version of this secret of this tenant alone. */
export type SecretVersion = Pick<SecretRecord, 'tenant' | 'name' | 'version'>

const contextOf = ({ tenant, name, version }: SecretVersion): SealContext => ['secrets', tenant, name, version]

/** The value as the database keeps it. */
export const sealValue = (keys: SecretKeys, of: SecretVersion, value: string): Sealed => seal(keys, Buffer.from(value), contextOf(of))

/** Throws for a row that has been changed, or is sealed under a key that is not in the secret key file. */
export const openValue = (keys: SecretKeys, secret: SecretVersion & Sealed): string => unseal(keys, secret, contextOf(secret)).toString()
