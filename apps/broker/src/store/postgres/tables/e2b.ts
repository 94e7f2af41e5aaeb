import type { E2bStore } from '../../e2b-store.ts'
import { type E2bSandboxRow, type E2bTokenRow, toE2bSandbox, toE2bSandboxRow, toE2bToken, toE2bTokenRow } from '../../rows/e2b-row.ts'
import type { Database } from '../engine/database.ts'

export function postgresE2b({ read, once, write }: Database): E2bStore {
  const byId = async (id: string) =>
    (await read.rows<E2bSandboxRow>('SELECT * FROM e2b_sandboxes WHERE id = $1', [id])).map(toE2bSandbox)[0]
  return {
    insert: async (sandbox) => {
      const row = toE2bSandboxRow(sandbox)
      await once.run(INSERT, [
        ...[row.id, row.tenant, row.principal, row.session_id, row.thread_id, row.template, row.metadata],
        ...[row.auto_pause, row.made_session, row.started_at, row.end_at, row.paused],
      ])
    },
    byId,
    bySession: async (id) =>
      (await read.rows<E2bSandboxRow>('SELECT * FROM e2b_sandboxes WHERE session_id = $1', [id])).map(toE2bSandbox)[0],
    list: async ({ tenant, principal, after, limit }) =>
      (await read.rows<E2bSandboxRow>(LIST, [tenant, principal, after?.startedAt ?? 0, after?.id ?? '', limit])).map(toE2bSandbox),
    set: async (id, { endAt, paused }) =>
      (await once.run('UPDATE e2b_sandboxes SET end_at = $1, paused = $2 WHERE id = $3', [endAt, paused ? 1 : 0, id])) > 0,
    due: async (now, limit) => (await read.rows<E2bSandboxRow>(DUE, [now, limit])).map(toE2bSandbox),
    remove: (id) =>
      write(async (tx) => {
        await tx.run('DELETE FROM e2b_sandboxes WHERE id = $1', [id])
        await tx.run('DELETE FROM e2b_tokens WHERE sandbox_id = $1', [id])
      }),
    addToken: (token, most) =>
      write(async (tx) => {
        const row = toE2bTokenRow(token)
        // Those who add to one sandbox take turns, so that of more than `most` the oldest go.
        await tx.rows('SELECT id FROM e2b_sandboxes WHERE id = $1 FOR UPDATE', [row.sandbox_id])
        await tx.run(ADD_TOKEN, [row.hash, row.sandbox_id, row.actor, row.capabilities, row.made_at])
        await tx.run(TRIM_TOKENS, [row.sandbox_id, most])
      }),
    async byToken(hash) {
      const [row] = await read.rows<E2bTokenRow>('SELECT * FROM e2b_tokens WHERE hash = $1', [hash])
      const sandbox = row && (await byId(row.sandbox_id))
      return row && sandbox && { sandbox, token: toE2bToken(row) }
    },
  }
}

const INSERT = `INSERT INTO e2b_sandboxes
    (id, tenant, principal, session_id, thread_id, template, metadata, auto_pause, made_session, started_at, end_at, paused)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
const LIST = `SELECT * FROM e2b_sandboxes
  WHERE tenant = $1 AND ($2::text IS NULL OR principal = $2) AND (started_at, id) > ($3, $4)
  ORDER BY started_at, id LIMIT $5`
const DUE = 'SELECT * FROM e2b_sandboxes WHERE paused = 0 AND end_at <= $1 ORDER BY end_at LIMIT $2'
const ADD_TOKEN = 'INSERT INTO e2b_tokens (hash, sandbox_id, actor, capabilities, made_at) VALUES ($1, $2, $3, $4, $5)'
const TRIM_TOKENS = `DELETE FROM e2b_tokens WHERE hash IN
  (SELECT hash FROM e2b_tokens WHERE sandbox_id = $1 ORDER BY made_at DESC, hash OFFSET $2)`
