import type { Scope } from '@boxoffice/protocol'
import { workspaceIdOf } from '../../../domain/scope.ts'
import type { Session } from '../../../domain/session.ts'
import type { WorkspaceFate } from '../../../domain/workspace.ts'
import { LIVE } from '../../rows/session-row.ts'
import type { WorkspaceStore } from '../../session-store.ts'
import type { Database, Transaction } from '../engine/database.ts'

const OF_SCOPE = 'tenant = $1 AND scope_type = $2 AND scope_id = $3'
const HOLD = `INSERT INTO workspaces (id, agent_id, held_at) VALUES ($1, $2, $3)
  ON CONFLICT (id, agent_id) DO UPDATE SET held_at = excluded.held_at, unwanted = 0`
const HOLDERS = 'SELECT agent_id FROM workspaces WHERE id = $1 AND unwanted = 0 ORDER BY held_at DESC'

/** Under the scope's lock: what becomes of the workspace of a session's scope. */
export async function settleWorkspace(tx: Transaction, session: Session, fate: WorkspaceFate): Promise<void> {
  const { tenant, scope, agentId } = session
  if (fate === 'hold') {
    await tx.run(HOLD, [workspaceIdOf(tenant, scope), agentId, 'endedAt' in session ? session.endedAt : session.lastActivityAt])
    return
  }
  // A session that had expired is released late: the scope's next one may have the workspace by now.
  const live = await tx.rows(`SELECT 1 FROM sessions WHERE ${OF_SCOPE} AND ${LIVE}`, [tenant, scope.type, scope.id])
  if (live.length === 0) await forgetWorkspace(tx, tenant, scope)
}

/** Under the scope's lock: nobody wants the scope's workspace any more. */
export async function forgetWorkspace(tx: Transaction, tenant: string, scope: Scope): Promise<void> {
  await tx.run('UPDATE workspaces SET unwanted = 1 WHERE id = $1', [workspaceIdOf(tenant, scope)])
  // Also where a sandbox that would leave one has not ended yet.
  await tx.run(`UPDATE sessions SET keep_workspace = 0 WHERE ${OF_SCOPE} AND keep_workspace = 1`, [tenant, scope.type, scope.id])
}

export function postgresWorkspaces({ read, once }: Database): WorkspaceStore {
  return {
    holders: async (id) => (await read.rows<{ agent_id: string }>(HOLDERS, [id])).map((row) => row.agent_id),
    unwantedOn: async (agentId) =>
      (await read.rows<{ id: string }>('SELECT id FROM workspaces WHERE agent_id = $1 AND unwanted = 1', [agentId])).map(({ id }) => id),
    async removed(id, agentId) {
      await once.run('DELETE FROM workspaces WHERE id = $1 AND agent_id = $2 AND unwanted = 1', [id, agentId])
    },
  }
}
