import type { SecretRecord } from '../secret-store.ts'

/** One row of `secrets`. */
export type SecretRow = {
  tenant: string
  name: string
  version: number
  description: string | null
  sealed: string
  kek_id: string
  created_at: number
  created_by: string
  updated_at: number
}

export const toSecretRow = (secret: SecretRecord): SecretRow => ({
  tenant: secret.tenant,
  name: secret.name,
  version: secret.version,
  description: secret.description,
  sealed: secret.sealed,
  kek_id: secret.kekId,
  created_at: secret.createdAt,
  created_by: secret.createdBy,
  updated_at: secret.updatedAt,
})

export const toSecret = (row: SecretRow): SecretRecord => ({
  tenant: row.tenant,
  name: row.name,
  version: row.version,
  description: row.description,
  sealed: row.sealed,
  kekId: row.kek_id,
  createdAt: row.created_at,
  createdBy: row.created_by,
  updatedAt: row.updated_at,
})
