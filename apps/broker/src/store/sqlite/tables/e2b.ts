import type { Capability } from '@boxoffice/protocol'
import type { E2bSandbox, E2bStore, E2bToken } from '../../e2b-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

type SandboxRow = {
  id: string
  tenant: string
  principal: string
  session_id: string
  thread_id: string
  template: string
  metadata: string
  auto_pause: number
  made_session: number
  started_at: number
  end_at: number
  paused: number
}
type TokenRow = { hash: string; sandbox_id: string; actor: string; capabilities: string; made_at: number }

export function sqliteE2b(db: Db, write: Write): E2bStore {
  const insert = db.prepare(
    `INSERT INTO e2b_sandboxes
       (id, tenant, principal, session_id, thread_id, template, metadata, auto_pause, made_session, started_at, end_at, paused)
     VALUES
       (@id, @tenant, @principal, @sessionId, @threadId, @template, @metadata, @autoPause, @madeSession, @startedAt, @endAt, @paused)`,
  )
  const byId = db.prepare<[string], SandboxRow>('SELECT * FROM e2b_sandboxes WHERE id = ?')
  const bySession = db.prepare<[string], SandboxRow>('SELECT * FROM e2b_sandboxes WHERE session_id = ?')
  const list = db.prepare<[object], SandboxRow>(
    `SELECT * FROM e2b_sandboxes
     WHERE tenant = @tenant AND (@principal IS NULL OR principal = @principal) AND (started_at, id) > (@startedAt, @afterId)
     ORDER BY started_at, id LIMIT @limit`,
  )
  const set = db.prepare('UPDATE e2b_sandboxes SET end_at = ?, paused = ? WHERE id = ?')
  const due = db.prepare<[number, number], SandboxRow>(
    'SELECT * FROM e2b_sandboxes WHERE paused = 0 AND end_at <= ? ORDER BY end_at LIMIT ?',
  )
  const remove = db.prepare('DELETE FROM e2b_sandboxes WHERE id = ?')
  const removeTokens = db.prepare('DELETE FROM e2b_tokens WHERE sandbox_id = ?')
  const addToken = db.prepare(
    'INSERT INTO e2b_tokens (hash, sandbox_id, actor, capabilities, made_at) VALUES (@hash, @sandboxId, @actor, @capabilities, @madeAt)',
  )
  const trimTokens = db.prepare(
    `DELETE FROM e2b_tokens WHERE hash IN
       (SELECT hash FROM e2b_tokens WHERE sandbox_id = ? ORDER BY made_at DESC, hash LIMIT -1 OFFSET ?)`,
  )
  const token = db.prepare<[string], TokenRow>('SELECT * FROM e2b_tokens WHERE hash = ?')
  return {
    insert: async (sandbox) =>
      write(() => {
        insert.run({
          ...sandbox,
          metadata: JSON.stringify(sandbox.metadata),
          autoPause: sandbox.autoPause ? 1 : 0,
          madeSession: sandbox.madeSession ? 1 : 0,
          paused: sandbox.paused ? 1 : 0,
        })
      }),
    byId: async (id) => toSandbox(byId.get(id)),
    bySession: async (id) => toSandbox(bySession.get(id)),
    list: async ({ tenant, principal, after, limit }) =>
      list
        .all({ tenant, principal, startedAt: after?.startedAt ?? 0, afterId: after?.id ?? '', limit })
        .flatMap((row) => toSandbox(row) ?? []),
    set: (id, { endAt, paused }) => write.vital(() => set.run(endAt, paused ? 1 : 0, id).changes > 0),
    due: async (now, limit) => due.all(now, limit).flatMap((row) => toSandbox(row) ?? []),
    remove: (id) =>
      write.vital(() => {
        removeTokens.run(id)
        remove.run(id)
      }),
    addToken: (added, most) =>
      write(() => {
        addToken.run({ ...added, capabilities: JSON.stringify(added.capabilities) })
        trimTokens.run(added.sandboxId, most)
      }),
    async byToken(hash) {
      const found = toToken(token.get(hash))
      const sandbox = found && toSandbox(byId.get(found.sandboxId))
      return found === undefined || sandbox === undefined ? undefined : { sandbox, token: found }
    },
  }
}

const toSandbox = (row: SandboxRow | undefined): E2bSandbox | undefined =>
  row && {
    id: row.id,
    tenant: row.tenant,
    principal: row.principal,
    sessionId: row.session_id,
    threadId: row.thread_id,
    template: row.template,
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    autoPause: row.auto_pause !== 0,
    madeSession: row.made_session !== 0,
    startedAt: row.started_at,
    endAt: row.end_at,
    paused: row.paused !== 0,
  }

const toToken = (row: TokenRow | undefined): E2bToken | undefined =>
  row && {
    hash: row.hash,
    sandboxId: row.sandbox_id,
    actor: row.actor,
    capabilities: JSON.parse(row.capabilities) as Capability[],
    madeAt: row.made_at,
  }
