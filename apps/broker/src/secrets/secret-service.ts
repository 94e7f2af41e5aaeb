import { BoxofficeError } from '@boxoffice/protocol'
import { auditEntry, type Origin } from '../domain/audit-entry.ts'
import type { SecretKeys } from '../host/secret-keys.ts'
import type { SecretRecord, SecretStore } from '../store/secret-store.ts'
import { sealValue } from './sealed-value.ts'

export type SecretServiceOptions = {
  secrets: SecretStore
  /** What values are sealed under; called when one is sealed. */
  keys: () => SecretKeys
  now: () => number
}

export type NewValue = { value: string; description?: string | undefined }

/** How many a tenant may have. */
const MOST_OF_TENANT = 1000
/** Each lost round means that somebody else has set the same secret. */
const ROUNDS = 100

/** Sets, lists and removes the secrets of a tenant. It gives no value to anybody. */
export class SecretService {
  readonly #options: SecretServiceOptions

  constructor(options: SecretServiceOptions) {
    this.#options = options
  }

  /** The secret with a new value, and whether there was none of its name. 507 `QUOTA_EXCEEDED` where the tenant has too many. */
  async set(
    tenant: string,
    name: string,
    { value, description }: NewValue,
    origin: Origin,
  ): Promise<{ secret: SecretRecord; made: boolean }> {
    const { secrets, keys, now } = this.#options
    for (let round = 0; round < ROUNDS; round++) {
      const before = await secrets.find(tenant, name)
      const version = (before?.version ?? 0) + 1
      const at = now()
      const secret: SecretRecord = {
        ...{ tenant, name, version, description: description ?? before?.description ?? null },
        ...sealValue(keys(), { tenant, name, version }, value),
        ...{ createdAt: before?.createdAt ?? at, createdBy: before?.createdBy ?? origin.caller ?? '', updatedAt: at },
      }
      const audit = [auditEntry('secret.set', origin, { ts: at, data: { name, version } })]
      const outcome = await secrets.put(secret, before?.version ?? null, MOST_OF_TENANT, audit)
      if (outcome === 'put') return { secret, made: before === undefined }
      if (outcome === 'full')
        throw new BoxofficeError('QUOTA_EXCEEDED', `the tenant has ${MOST_OF_TENANT} secrets; remove one first`, {
          details: { max: MOST_OF_TENANT },
        })
    }
    throw new BoxofficeError('BINDING_CONFLICT', `the secret "${name}" is being set by others; try again`)
  }

  find(tenant: string, name: string): Promise<SecretRecord | undefined> {
    return this.#options.secrets.find(tenant, name)
  }

  /** In the order of their names, after `after`. */
  list(tenant: string, after: string | null, limit: number): Promise<SecretRecord[]> {
    return this.#options.secrets.list(tenant, after, limit)
  }

  /** False when there is no such secret. */
  remove(tenant: string, name: string, origin: Origin): Promise<boolean> {
    const { secrets, now } = this.#options
    return secrets.remove(tenant, name, [auditEntry('secret.remove', origin, { ts: now(), data: { name } })])
  }
}
