import { BoxofficeError } from '@boxoffice/protocol'
import { auditEntry, type Origin } from '../domain/audit-entry.ts'
import type { KeyRecord, KeyStore } from '../store/store.ts'
import { hashKey, isRootOperator, newApiKey, newKeyId, type Principal, type Principals } from './principals.ts'

export type NewKey = Pick<KeyRecord, 'name' | 'tenant' | 'principal' | 'actorType' | 'role' | 'rights' | 'capabilities'>

/** Makes, lists and revokes API keys. An operator sees its own tenant; operators of the root tenant see all. */
export class KeyService {
  readonly #keys: KeyStore
  readonly #principals: Principals
  readonly #now: () => number

  constructor(keys: KeyStore, principals: Principals, now: () => number) {
    this.#keys = keys
    this.#principals = principals
    this.#now = now
  }

  /** The record, and the key itself: the only time that anybody sees it. */
  async create(principal: Principal, fields: NewKey, origin: Origin): Promise<{ record: KeyRecord; key: string }> {
    if (fields.tenant !== principal.tenant && !isRootOperator(principal))
      throw new BoxofficeError('FORBIDDEN', 'tenant: an operator makes keys for its own tenant only')
    const key = newApiKey()
    const record: KeyRecord = { ...fields, id: newKeyId(), hash: hashKey(key), createdAt: this.#now(), revokedAt: null }
    await this.#keys.insert(record, [auditEntry('key.create', origin, { ts: this.#now() })])
    return { record, key }
  }

  list(principal: Principal): Promise<KeyRecord[]> {
    return this.#keys.list(isRootOperator(principal) ? null : principal.tenant)
  }

  /** False when there is no such key for this operator, or it is revoked already. */
  async revoke(principal: Principal, id: string, origin: Origin): Promise<boolean> {
    const record = await this.#keys.byId(id)
    if (record === undefined || (record.tenant !== principal.tenant && !isRootOperator(principal))) return false
    const revoked = await this.#keys.revoke(id, this.#now(), [auditEntry('key.revoke', origin, { ts: this.#now() })])
    this.#principals.forget(record.hash)
    return revoked
  }
}
