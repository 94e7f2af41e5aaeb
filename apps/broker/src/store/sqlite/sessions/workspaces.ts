import type { Scope } from '@boxoffice/protocol'
import { workspaceIdOf } from '../../../domain/scope.ts'
import type { Session } from '../../../domain/session.ts'
import type { WorkspaceFate } from '../../../domain/workspace.ts'
import { LIVE } from '../../rows/session-row.ts'
import type { WorkspaceStore } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

/** Inside a transaction: what becomes of the workspace of a session's scope. */
export type SettleWorkspace = (session: Session, fate: WorkspaceFate) => void
/** Inside a transaction: nobody wants the scope's workspace any more. */
export type ForgetWorkspace = (tenant: string, scope: Scope) => void

export function sqliteWorkspaces(db: Db, write: Write): { store: WorkspaceStore; settle: SettleWorkspace; forget: ForgetWorkspace } {
  const holders = db.prepare<[string]>('SELECT agent_id FROM workspaces WHERE id = ? AND unwanted = 0 ORDER BY held_at DESC').pluck()
  const unwanted = db.prepare<[string]>('SELECT id FROM workspaces WHERE agent_id = ? AND unwanted = 1').pluck()
  const remove = db.prepare('DELETE FROM workspaces WHERE id = ? AND agent_id = ? AND unwanted = 1')
  const hold = db.prepare(
    `INSERT INTO workspaces (id, agent_id, held_at) VALUES (?, ?, ?)
     ON CONFLICT (id, agent_id) DO UPDATE SET held_at = excluded.held_at, unwanted = 0`,
  )
  const discard = db.prepare('UPDATE workspaces SET unwanted = 1 WHERE id = ?')
  const live = db.prepare<[string, string, string]>(
    `SELECT 1 FROM sessions WHERE tenant = ? AND scope_type = ? AND scope_id = ? AND ${LIVE}`,
  )
  const unkeep = db.prepare(
    'UPDATE sessions SET keep_workspace = 0 WHERE tenant = ? AND scope_type = ? AND scope_id = ? AND keep_workspace = 1',
  )

  const forget = (tenant: string, scope: Scope): void => {
    discard.run(workspaceIdOf(tenant, scope))
    // Also where a sandbox that would leave one has not ended yet.
    unkeep.run(tenant, scope.type, scope.id)
  }
  return {
    forget,
    settle: ({ tenant, scope, agentId, ...session }, fate) => {
      if (fate === 'hold') hold.run(workspaceIdOf(tenant, scope), agentId, 'endedAt' in session ? session.endedAt : session.lastActivityAt)
      // A session that had expired is released late: the scope's next one may have the workspace by now.
      else if (live.get(tenant, scope.type, scope.id) === undefined) forget(tenant, scope)
    },
    store: {
      holders: async (workspaceId) => holders.all(workspaceId) as string[],
      unwantedOn: async (agentId) => unwanted.all(agentId) as string[],
      removed: async (workspaceId, agentId) => write.vital(() => void remove.run(workspaceId, agentId)),
    },
  }
}
