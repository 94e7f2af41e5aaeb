import {
  type EndedSession,
  isLive,
  type LiveSession,
  type PlacedSession,
  type ProvisioningSession,
  type Session,
} from '../../../domain/session.ts'
import { type AgentRow, toAgent } from '../../rows/agent-row.ts'
import { LIVE, type SessionRow, toSession } from '../../rows/session-row.ts'
import type { AgentSessionStore, SessionStore } from '../../session-store.ts'
import type { Store } from '../../store.ts'
import { CreationLanes } from '../engine/creation-lanes.ts'
import type { Database } from '../engine/database.ts'
import { grouped } from '../engine/grouped.ts'
import { lockScope } from '../engine/locks.ts'
import { appendAudit } from '../tables/audit.ts'
import { Profiles } from './profiles.ts'
import { disownScope, OWNERSHIP, type OwnershipRow, ownershipOf, toOwnership } from './scopes.ts'
import { sessionChanges } from './session-change.ts'
import { createSession } from './session-creation.ts'
import { listSessions } from './session-list.ts'
import { forgetWorkspace } from './workspaces.ts'

// With the row, whether grants must be looked up: nearly always not, and then `ensure` needs no further look-up.
const HAS_GRANTS = 'EXISTS (SELECT 1 FROM grants WHERE session_id = s.id)::int AS has_grants'
const COLUMNS = `s.*, ${HAS_GRANTS}`
const select = (where: string): string => `SELECT ${COLUMNS} FROM sessions s WHERE ${where}`

const OF_SCOPE = 'tenant = $1 AND scope_type = $2 AND scope_id = $3'
// `ensure` of a live session asks this and writes once. Rows as JSON: the driver looks at each column of each answer anew, which took
// 0.06 ms of the broker's processor time more.
const STATE = `SELECT ${OWNERSHIP}, to_json(a) AS agent, to_json(s) AS session, ${HAS_GRANTS}
  FROM (SELECT) AS one
  LEFT JOIN scopes o ON o.tenant = $1 AND o.scope_type = $2 AND o.scope_id = $3
  LEFT JOIN sessions s ON s.tenant = $1 AND s.scope_type = $2 AND s.scope_id = $3 AND s.${LIVE}
  LEFT JOIN agents a ON a.id = s.agent_id`
const BY_ID = select('id = $1')
const BY_IDS = select('id = ANY($1)')
const LIVE_OF_SCOPE = select(`${OF_SCOPE} AND ${LIVE}`)
const DUE = select(`due_at <= $1 AND ${LIVE} ORDER BY due_at LIMIT $2`)
const PROVISIONING = select("state = 'provisioning'")
const PLACED_ON = select(`agent_id = ANY($1) AND ${LIVE} AND sandbox_id IS NOT NULL`)
const ENDED_ON = select('agent_id = $1 AND ended_at > $2')
const KEPT = `SELECT id FROM sessions WHERE ${OF_SCOPE} AND keep_workspace = 1 ORDER BY created_at DESC LIMIT 20`
const RELEASE = `UPDATE sessions SET state = 'terminated', reason = 'released', revision = revision + 1
  WHERE ${OF_SCOPE} AND state IN ('failed', 'terminated') AND reason <> 'released'`
const CATCH_UP = 'UPDATE sessions SET revision = $2 + 1 WHERE id = $1 AND revision < $2'
const PURGE = `DELETE FROM sessions WHERE id IN
  (SELECT id FROM sessions WHERE ended_at < $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)`

type StateRow = OwnershipRow & { agent: AgentRow | null; session: SessionRow | null; has_grants: 0 | 1 }

export function postgresSessions(database: Database): Pick<Store, 'sessions' | 'agentSessions' | 'ofScope'> {
  const { read, once, write } = database
  const profiles = new Profiles(read)
  const lanes = new CreationLanes()
  const toSessions = async (rows: readonly SessionRow[]): Promise<Session[]> => {
    const profileOf = await profiles.of(rows.map((row) => row.profile_hash))
    return rows.map((row) => toSession(row, profileOf(row.profile_hash)))
  }
  const find = async (text: string, ...values: unknown[]): Promise<Session[]> => toSessions(await read.rows<SessionRow>(text, values))
  // For reports of agents, which come in groups.
  const oneOfMany = grouped(
    async (ids: readonly string[]) => {
      const found = new Map((await find(BY_IDS, ids)).map((session) => [session.id, session]))
      return ids.map((id) => found.get(id))
    },
    { keyOf: (id) => id },
  )
  const findLive = async (text: string, ...values: unknown[]): Promise<LiveSession[]> => (await find(text, ...values)).filter(isLive)

  const sessions: SessionStore = {
    byId: async (id) => (await find(BY_ID, id))[0],
    byIds: async (ids) => (await Promise.all(ids.map(oneOfMany))).filter((session) => session !== undefined),
    live: async (tenant, scope) => (await findLive(LIVE_OF_SCOPE, tenant, scope.type, scope.id))[0],
    create: (session, terms, written) => lanes.run(session.tenant, () => createSession(write, profiles, session, terms, written)),
    save: sessionChanges(database),
    catchUp: async (id, revision) => (await once.run(CATCH_UP, [id, revision])) === 1,
    due: (now, limit) => findLive(DUE, now, limit),
    provisioning: async () => (await findLive(PROVISIONING)) as ProvisioningSession[],
    keptOf: async (tenant, scope) => (await read.rows<{ id: string }>(KEPT, [tenant, scope.type, scope.id])).map(({ id }) => id),
    list: async (filter) => toSessions(await listSessions(read, filter)),
    forgetScope: (tenant, scope, owner, audit) =>
      write(async (tx) => {
        await lockScope(tx, tenant, scope)
        if ((await ownershipOf(tx, tenant, scope)).owner !== owner) return 'changed'
        const ofScope = [tenant, scope.type, scope.id]
        if ((await tx.rows(LIVE_OF_SCOPE, ofScope)).length > 0) return 'live'
        await disownScope(tx, tenant, scope)
        // The next owner is not told of the last one's sessions, and does not get its files: all is as if it were released.
        await forgetWorkspace(tx, tenant, scope)
        await tx.run(RELEASE, ofScope)
        await appendAudit(tx, audit)
        return 'forgotten'
      }),
    purge: (before, limit) => once.run(PURGE, [before, limit]),
  }
  const agentSessions: AgentSessionStore = {
    placedOn: async (agentIds) => (await findLive(PLACED_ON, agentIds)) as PlacedSession[],
    endedOn: async (agentId, since) => (await find(ENDED_ON, agentId, since)) as EndedSession[],
  }
  const ofScope: Store['ofScope'] = async (tenant, scope) => {
    const [row] = await read.rows<StateRow>(STATE, [tenant, scope.type, scope.id])
    const live = row?.session ? (await toSessions([{ ...row.session, has_grants: row.has_grants }])).find(isLive) : undefined
    return { ownership: toOwnership(row), live, agent: row?.agent ? toAgent(row.agent) : undefined }
  }
  return { sessions, agentSessions, ofScope }
}
