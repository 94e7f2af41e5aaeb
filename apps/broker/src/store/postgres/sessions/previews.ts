import type { PreviewCode, PreviewStore } from '../../preview-store.ts'
import { type ExposedPortRow, toExposedPort, toExposedPortRow } from '../../rows/preview-row.ts'
import { LIVE } from '../../rows/session-row.ts'
import type { Database } from '../engine/database.ts'
import { lockSessions } from '../engine/locks.ts'
import { appendAudit } from '../tables/audit.ts'
import { appendEvents } from './events.ts'

const IS_LIVE = `SELECT id FROM sessions WHERE id = $1 AND ${LIVE}`
const FORGET_EARLIER = 'DELETE FROM exposed_ports WHERE session_id = $1 AND incarnation <> $2'
const OTHERS = 'SELECT port FROM exposed_ports WHERE session_id = $1 AND incarnation = $2 AND port <> $3'
const EXPOSE = `INSERT INTO exposed_ports
    (label, tenant, session_id, incarnation, port, access, host, embed_origins, created_by, created_at, expires_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
  ON CONFLICT (session_id, port) DO UPDATE SET access = excluded.access, host = excluded.host,
    embed_origins = excluded.embed_origins, created_by = excluded.created_by, expires_at = excluded.expires_at
  RETURNING *`
const WITHDRAW = 'DELETE FROM exposed_ports WHERE session_id = $1 AND port = $2'
const ADD_CODE = 'INSERT INTO preview_codes (hash, label, actor, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)'
// Rows that another link clears at this moment are left to it.
const FORGET_CODES = `DELETE FROM preview_codes WHERE hash IN (SELECT hash FROM preview_codes WHERE expires_at <= $1 FOR UPDATE SKIP LOCKED)`
const TAKE_CODE = 'DELETE FROM preview_codes WHERE hash = $1 AND label = $2 AND expires_at > $3 RETURNING actor, created_at AS "createdAt"'

export function postgresPreviews({ read, once, write }: Database): PreviewStore {
  return {
    expose: (wanted, most, written) =>
      write(async (tx) => {
        const { sessionId, incarnation, port } = wanted
        // With the session's row nobody ends it, and nobody counts its ports, at the same time.
        await lockSessions(tx, [sessionId])
        if ((await tx.rows(IS_LIVE, [sessionId])).length === 0) return { outcome: 'ended' as const }
        if ((await tx.rows(OTHERS, [sessionId, incarnation, port])).length >= most) return { outcome: 'full' as const }
        await tx.run(FORGET_EARLIER, [sessionId, incarnation])
        const row = toExposedPortRow(wanted)
        const [exposed] = await tx.rows<ExposedPortRow>(EXPOSE, [
          ...[row.label, row.tenant, row.session_id, row.incarnation, row.port, row.access, row.host, row.embed_origins],
          ...[row.created_by, row.created_at, row.expires_at],
        ])
        await appendEvents(tx, sessionId, written.events)
        await appendAudit(tx, written.audit)
        return { outcome: 'exposed' as const, port: toExposedPort(exposed as ExposedPortRow) }
      }),
    withdraw: (sessionId, port, written) =>
      write(async (tx) => {
        await lockSessions(tx, [sessionId])
        if ((await tx.run(WITHDRAW, [sessionId, port])) === 0) return false
        await appendEvents(tx, sessionId, written.events)
        await appendAudit(tx, written.audit)
        return true
      }),
    byLabel: async (label) =>
      (await read.rows<ExposedPortRow>('SELECT * FROM exposed_ports WHERE label = $1', [label])).map(toExposedPort)[0],
    ofSession: async (sessionId) =>
      (await read.rows<ExposedPortRow>('SELECT * FROM exposed_ports WHERE session_id = $1 ORDER BY port', [sessionId])).map(toExposedPort),
    addCode: async ({ hash, label, actor, createdAt, expiresAt }, now) => {
      await once.run(FORGET_CODES, [now])
      await once.run(ADD_CODE, [hash, label, actor, createdAt, expiresAt])
    },
    takeCode: (hash, label, now) =>
      write(async (tx) => (await tx.rows<Pick<PreviewCode, 'actor' | 'createdAt'>>(TAKE_CODE, [hash, label, now]))[0]),
  }
}
