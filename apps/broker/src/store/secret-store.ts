import type { AuditEntry } from '../domain/audit-entry.ts'
import type { Sealed } from '../host/sealing.ts'

/** Which secret it is. */
export type SecretKeyOf = { tenant: string; name: string }

/** A secret in its newest version; earlier values are not kept. Times in Unix milliseconds. */
export type SecretRecord = SecretKeyOf &
  Sealed & {
    /** Rises by one with each value, from 1 on. It is sealed with the value. */
    version: number
    description: string | null
    createdAt: number
    createdBy: string
    updatedAt: number
  }

/** The secrets of all tenants, sealed: the store never sees a value. */
export interface SecretStore {
  find(tenant: string, name: string): Promise<SecretRecord | undefined>
  /** Those of the names that are there, in any order. */
  named(tenant: string, names: readonly string[]): Promise<SecretRecord[]>
  /** Of a tenant, in the order of their names, after the name `after`. */
  list(tenant: string, after: string | null, limit: number): Promise<SecretRecord[]>
  /**
   * Adds the secret where `before` is null, unless its tenant has `most`; else replaces the one of version `before`. `changed`, and
   * nothing is written, when another version is there.
   */
  put(secret: SecretRecord, before: number | null, most: number, audit: readonly AuditEntry[]): Promise<'put' | 'changed' | 'full'>
  /** False when there is no such secret. */
  remove(tenant: string, name: string, audit: readonly AuditEntry[]): Promise<boolean>
  /** Of all tenants, in one order, after this one. */
  page(after: SecretKeyOf | null, limit: number): Promise<SecretRecord[]>
  /** Replaces what is sealed while it is still `before`; false when it has changed or is gone. */
  reseal(secret: SecretKeyOf, before: string, after: Sealed): Promise<boolean>
}
