import type { E2bSandbox, E2bStore } from '../../e2b-store.ts'
import { type E2bSandboxRow, type E2bTokenRow, toE2bSandbox, toE2bSandboxRow, toE2bToken, toE2bTokenRow } from '../../rows/e2b-row.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

export function sqliteE2b(db: Db, write: Write): E2bStore {
  const insert = db.prepare(
    `INSERT INTO e2b_sandboxes
       (id, tenant, principal, session_id, thread_id, template, metadata, auto_pause, made_session, started_at, end_at, paused)
     VALUES
       (@id, @tenant, @principal, @session_id, @thread_id, @template, @metadata, @auto_pause, @made_session, @started_at, @end_at, @paused)`,
  )
  const byId = db.prepare<[string], E2bSandboxRow>('SELECT * FROM e2b_sandboxes WHERE id = ?')
  const bySession = db.prepare<[string], E2bSandboxRow>('SELECT * FROM e2b_sandboxes WHERE session_id = ?')
  const list = db.prepare<[object], E2bSandboxRow>(
    `SELECT * FROM e2b_sandboxes
     WHERE tenant = @tenant AND (@principal IS NULL OR principal = @principal) AND (started_at, id) > (@startedAt, @afterId)
     ORDER BY started_at, id LIMIT @limit`,
  )
  const set = db.prepare('UPDATE e2b_sandboxes SET end_at = ?, paused = ? WHERE id = ?')
  const due = db.prepare<[number, number], E2bSandboxRow>(
    'SELECT * FROM e2b_sandboxes WHERE paused = 0 AND end_at <= ? ORDER BY end_at LIMIT ?',
  )
  const remove = db.prepare('DELETE FROM e2b_sandboxes WHERE id = ?')
  const removeTokens = db.prepare('DELETE FROM e2b_tokens WHERE sandbox_id = ?')
  const addToken = db.prepare(
    'INSERT INTO e2b_tokens (hash, sandbox_id, actor, capabilities, made_at) VALUES (@hash, @sandbox_id, @actor, @capabilities, @made_at)',
  )
  const trimTokens = db.prepare(
    `DELETE FROM e2b_tokens WHERE hash IN
       (SELECT hash FROM e2b_tokens WHERE sandbox_id = ? ORDER BY made_at DESC, hash LIMIT -1 OFFSET ?)`,
  )
  const token = db.prepare<[string], E2bTokenRow>('SELECT * FROM e2b_tokens WHERE hash = ?')
  const sandbox = (row: E2bSandboxRow | undefined): E2bSandbox | undefined => row && toE2bSandbox(row)
  return {
    insert: async (sandbox) =>
      write(() => {
        insert.run(toE2bSandboxRow(sandbox))
      }),
    byId: async (id) => sandbox(byId.get(id)),
    bySession: async (id) => sandbox(bySession.get(id)),
    list: async ({ tenant, principal, after, limit }) =>
      list.all({ tenant, principal, startedAt: after?.startedAt ?? 0, afterId: after?.id ?? '', limit }).map(toE2bSandbox),
    set: (id, { endAt, paused }) => write.vital(() => set.run(endAt, paused ? 1 : 0, id).changes > 0),
    due: async (now, limit) => due.all(now, limit).map(toE2bSandbox),
    remove: (id) =>
      write.vital(() => {
        removeTokens.run(id)
        remove.run(id)
      }),
    addToken: (added, most) =>
      write(() => {
        addToken.run(toE2bTokenRow(added))
        trimTokens.run(added.sandboxId, most)
      }),
    async byToken(hash) {
      const found = token.get(hash)
      const of = found && byId.get(found.sandbox_id)
      return found && of && { sandbox: toE2bSandbox(of), token: toE2bToken(found) }
    },
  }
}
