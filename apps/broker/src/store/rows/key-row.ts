import type { KeyRecord, KeyRight, KeyRole } from '../store.ts'
import { toCapabilities, toText } from './capability-list.ts'

/** One row of `api_keys`. */
export type KeyRow = {
  id: string
  hash: string
  name: string
  tenant: string
  principal: string
  actor_type: 'human' | 'agent'
  role: KeyRole
  /** JSON. */
  rights: string
  capabilities: string | null
  created_at: number
  revoked_at: number | null
}

export const toKeyRow = (key: KeyRecord): KeyRow => ({
  id: key.id,
  hash: key.hash,
  name: key.name,
  tenant: key.tenant,
  principal: key.principal,
  actor_type: key.actorType,
  role: key.role,
  rights: JSON.stringify(key.rights),
  capabilities: toText(key.capabilities),
  created_at: key.createdAt,
  revoked_at: key.revokedAt,
})

export const toKey = (row: KeyRow): KeyRecord => ({
  id: row.id,
  hash: row.hash,
  name: row.name,
  tenant: row.tenant,
  principal: row.principal,
  actorType: row.actor_type,
  role: row.role,
  rights: JSON.parse(row.rights) as KeyRight[],
  capabilities: toCapabilities(row.capabilities),
  createdAt: row.created_at,
  revokedAt: row.revoked_at,
})
