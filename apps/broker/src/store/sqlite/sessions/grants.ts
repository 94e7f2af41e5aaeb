import type { Capability } from '@boxoffice/protocol'
import { widest } from '../../../domain/capabilities.ts'
import type { GrantRecord, GrantStore } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from '../tables/audit.ts'

type Row = {
  session_id: string
  actor: string
  principal: string
  granted_at: number
  capabilities: string | null
  carried: string
  narrowed_to: string | null
  narrowed_at: number | null
}

/** Inside a transaction: writes a grant with the change that it belongs to. */
export type PutGrant = (grant: GrantRecord) => void

export function sqliteGrants(db: Db, write: Write, appendAudit: AppendAudit): { store: GrantStore; put: PutGrant } {
  const find = db.prepare<[string, string], Row>('SELECT * FROM grants WHERE session_id = ? AND actor = ?')
  const lastBy = db.prepare<[string, string], Row>(
    'SELECT * FROM grants WHERE session_id = ? AND principal = ? ORDER BY granted_at DESC, actor LIMIT 1',
  )
  const by = db.prepare<[string, string], Row>('SELECT * FROM grants WHERE session_id = ? AND principal = ?')
  const narrowedOn = db.prepare<[number, string], Row>(
    `SELECT g.* FROM grants g INDEXED BY grants_narrowed JOIN sessions s ON s.id = g.session_id
     WHERE g.narrowed_at > ? AND s.agent_id = ?`,
  )
  const upsert = db.prepare(
    `INSERT OR REPLACE INTO grants (session_id, actor, principal, granted_at, capabilities, carried, narrowed_to, narrowed_at)
     VALUES (@session_id, @actor, @principal, @granted_at, @capabilities, @carried, @narrowed_to, @narrowed_at)`,
  )
  const read = (row: Row | undefined): GrantRecord | undefined => row && toGrant(row)
  // Of two requests at once, each has read the row without what the other asks for.
  const put: PutGrant = (grant) => {
    const held = read(find.get(grant.sessionId, grant.actor))
    upsert.run(
      toRow(held === undefined ? grant : { ...laterNarrowed(held, grant), capabilities: widest(held.capabilities, grant.capabilities) }),
    )
  }
  const withdrawn = (own: GrantRecord, narrow: (grant: GrantRecord) => GrantRecord): GrantRecord[] => {
    const forOthers = by.all(own.sessionId, own.principal).map(toGrant)
    const known = read(find.get(own.sessionId, own.actor)) ?? own
    return [known, ...forOthers.filter(({ actor }) => actor !== own.actor)].map(narrow)
  }
  return {
    put,
    store: {
      find: async (sessionId, actor) => read(find.get(sessionId, actor)),
      lastBy: async (sessionId, principal) => read(lastBy.get(sessionId, principal)),
      narrowedOn: async (agentId, since) => narrowedOn.all(since, agentId).map(toGrant),
      put: async (grants, audit) =>
        write(() => {
          for (const grant of grants) put(grant)
          appendAudit(audit)
        }),
      // Agents are told in any case; the held write is what a later report of theirs would repeat.
      withdraw: async (own, narrow) =>
        write.vital(
          () => {
            const grants = withdrawn(own, narrow)
            for (const grant of grants) put(grant)
            return grants
          },
          { hold: () => withdrawn(own, narrow), release: () => {} },
        ),
    },
  }
}

/** The grant, but with what has been narrowed since it was read. */
const laterNarrowed = (held: GrantRecord, grant: GrantRecord): GrantRecord =>
  held.narrowedAt !== null && held.narrowedAt > (grant.narrowedAt ?? 0)
    ? { ...grant, narrowedTo: held.narrowedTo, narrowedAt: held.narrowedAt }
    : grant

const toRow = (grant: GrantRecord): Row => ({
  session_id: grant.sessionId,
  actor: grant.actor,
  principal: grant.principal,
  granted_at: grant.grantedAt,
  capabilities: textOf(grant.capabilities),
  carried: grant.carried.join(' '),
  narrowed_to: textOf(grant.narrowedTo),
  narrowed_at: grant.narrowedAt,
})

const toGrant = (row: Row): GrantRecord => ({
  sessionId: row.session_id,
  actor: row.actor,
  principal: row.principal,
  grantedAt: row.granted_at,
  capabilities: row.capabilities === null ? null : listOf(row.capabilities),
  carried: listOf(row.carried),
  narrowedTo: row.narrowed_to === null ? null : listOf(row.narrowed_to),
  narrowedAt: row.narrowed_at,
})

const textOf = (capabilities: readonly Capability[] | null): string | null => capabilities?.join(' ') ?? null
const listOf = (text: string): Capability[] => text.split(' ').filter(Boolean) as Capability[]
