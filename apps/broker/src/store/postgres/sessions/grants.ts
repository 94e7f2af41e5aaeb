import { type GrantRow, toGrant, toGrantRow, unitedGrant } from '../../rows/grant-row.ts'
import type { GrantRecord, GrantStore } from '../../session-store.ts'
import type { Database, Sql, Transaction } from '../engine/database.ts'
import { lockSessions } from '../engine/locks.ts'
import { appendAudit } from '../tables/audit.ts'

const FIND = 'SELECT * FROM grants WHERE session_id = $1 AND actor = $2'
const BY = 'SELECT * FROM grants WHERE session_id = $1 AND principal = $2'
const LAST_BY = `${BY} ORDER BY granted_at DESC, actor LIMIT 1`
const NARROWED_ON = 'SELECT g.* FROM grants g JOIN sessions s ON s.id = g.session_id WHERE g.narrowed_at > $1 AND s.agent_id = $2'
const PUT = `INSERT INTO grants (session_id, actor, principal, granted_at, capabilities, carried, narrowed_to, narrowed_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
  ON CONFLICT (session_id, actor) DO UPDATE SET principal = excluded.principal, granted_at = excluded.granted_at,
    capabilities = excluded.capabilities, carried = excluded.carried, narrowed_to = excluded.narrowed_to, narrowed_at = excluded.narrowed_at`

async function findGrant(sql: Sql, sessionId: string, actor: string): Promise<GrantRecord | undefined> {
  const [row] = await sql.rows<GrantRow>(FIND, [sessionId, actor])
  return row && toGrant(row)
}

/** In a transaction that has the session's row: writes a grant with the change that it belongs to. */
export async function putGrant(tx: Transaction, grant: GrantRecord): Promise<void> {
  const row = toGrantRow(unitedGrant(await findGrant(tx, grant.sessionId, grant.actor), grant))
  const given = [row.session_id, row.actor, row.principal, row.granted_at]
  await tx.run(PUT, [...given, row.capabilities, row.carried, row.narrowed_to, row.narrowed_at])
}

export function postgresGrants({ read, write }: Database): GrantStore {
  return {
    find: (sessionId, actor) => findGrant(read, sessionId, actor),
    async lastBy(sessionId, principal) {
      const [row] = await read.rows<GrantRow>(LAST_BY, [sessionId, principal])
      return row && toGrant(row)
    },
    narrowedOn: async (agentId, since) => (await read.rows<GrantRow>(NARROWED_ON, [since, agentId])).map(toGrant),
    put: (grants, audit) =>
      write(async (tx) => {
        await lockSessions(
          tx,
          grants.map(({ sessionId }) => sessionId),
        )
        for (const grant of grants) await putGrant(tx, grant)
        await appendAudit(tx, audit)
      }),
    withdraw: (own, narrow) =>
      write(async (tx) => {
        await lockSessions(tx, [own.sessionId])
        const forOthers = (await tx.rows<GrantRow>(BY, [own.sessionId, own.principal])).map(toGrant)
        const known = (await findGrant(tx, own.sessionId, own.actor)) ?? own
        const grants = [known, ...forOthers.filter(({ actor }) => actor !== own.actor)].map(narrow)
        for (const grant of grants) await putGrant(tx, grant)
        return grants
      }),
  }
}
