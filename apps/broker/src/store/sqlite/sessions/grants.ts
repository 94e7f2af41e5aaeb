import { type GrantRow, toGrant, toGrantRow, unitedGrant } from '../../rows/grant-row.ts'
import type { GrantRecord, GrantStore } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from '../tables/audit.ts'

/** Inside a transaction: writes a grant with the change that it belongs to. */
export type PutGrant = (grant: GrantRecord) => void

export function sqliteGrants(db: Db, write: Write, appendAudit: AppendAudit): { store: GrantStore; put: PutGrant } {
  const find = db.prepare<[string, string], GrantRow>('SELECT * FROM grants WHERE session_id = ? AND actor = ?')
  const lastBy = db.prepare<[string, string], GrantRow>(
    'SELECT * FROM grants WHERE session_id = ? AND principal = ? ORDER BY granted_at DESC, actor LIMIT 1',
  )
  const by = db.prepare<[string, string], GrantRow>('SELECT * FROM grants WHERE session_id = ? AND principal = ?')
  const narrowedOn = db.prepare<[number, string], GrantRow>(
    `SELECT g.* FROM grants g INDEXED BY grants_narrowed JOIN sessions s ON s.id = g.session_id
     WHERE g.narrowed_at > ? AND s.agent_id = ?`,
  )
  const upsert = db.prepare(
    `INSERT OR REPLACE INTO grants (session_id, actor, principal, granted_at, capabilities, carried, narrowed_to, narrowed_at)
     VALUES (@session_id, @actor, @principal, @granted_at, @capabilities, @carried, @narrowed_to, @narrowed_at)`,
  )
  const read = (row: GrantRow | undefined): GrantRecord | undefined => row && toGrant(row)
  const put: PutGrant = (grant) => {
    upsert.run(toGrantRow(unitedGrant(read(find.get(grant.sessionId, grant.actor)), grant)))
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
