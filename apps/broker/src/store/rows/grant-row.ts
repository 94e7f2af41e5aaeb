import { widest } from '../../domain/capabilities.ts'
import type { GrantRecord } from '../session-store.ts'
import { toCapabilities, toText } from './capability-list.ts'

/** One row of `grants`. */
export type GrantRow = {
  session_id: string
  actor: string
  principal: string
  granted_at: number
  capabilities: string | null
  carried: string
  narrowed_to: string | null
  narrowed_at: number | null
}

/**
 * What is to be written of a grant where `held` is there. Of two requests at once, each has read the row without what the other asks
 * for: what was asked for is united, and what was narrowed since it was read stays.
 */
export const unitedGrant = (held: GrantRecord | undefined, grant: GrantRecord): GrantRecord =>
  held === undefined ? grant : { ...laterNarrowed(held, grant), capabilities: widest(held.capabilities, grant.capabilities) }

/** The grant, but with what has been narrowed since it was read. */
const laterNarrowed = (held: GrantRecord, grant: GrantRecord): GrantRecord =>
  held.narrowedAt !== null && held.narrowedAt > (grant.narrowedAt ?? 0)
    ? { ...grant, narrowedTo: held.narrowedTo, narrowedAt: held.narrowedAt }
    : grant

export const toGrantRow = (grant: GrantRecord): GrantRow => ({
  session_id: grant.sessionId,
  actor: grant.actor,
  principal: grant.principal,
  granted_at: grant.grantedAt,
  capabilities: toText(grant.capabilities),
  carried: toText(grant.carried),
  narrowed_to: toText(grant.narrowedTo),
  narrowed_at: grant.narrowedAt,
})

export const toGrant = (row: GrantRow): GrantRecord => ({
  sessionId: row.session_id,
  actor: row.actor,
  principal: row.principal,
  grantedAt: row.granted_at,
  capabilities: toCapabilities(row.capabilities),
  carried: toCapabilities(row.carried),
  narrowedTo: toCapabilities(row.narrowed_to),
  narrowedAt: row.narrowed_at,
})
