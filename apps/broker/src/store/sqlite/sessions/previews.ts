import type { ExposedPortRecord, PreviewStore } from '../../preview-store.ts'
import { type ExposedPortRow, toExposedPort, toExposedPortRow } from '../../rows/preview-row.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from '../tables/audit.ts'
import type { AppendEvents } from './events.ts'

export function sqlitePreviews(db: Db, write: Write, { audit, events }: { audit: AppendAudit; events: AppendEvents }): PreviewStore {
  const isLive = db.prepare<[string]>(`SELECT 1 FROM sessions WHERE id = ? AND state IN ('provisioning', 'active', 'idle', 'suspended')`)
  const forgetEarlier = db.prepare('DELETE FROM exposed_ports WHERE session_id = ? AND incarnation <> ?')
  const count = db
    .prepare<[string, number, number]>('SELECT count(*) FROM exposed_ports WHERE session_id = ? AND incarnation = ? AND port <> ?')
    .pluck()
  const expose = db.prepare<[object], ExposedPortRow>(
    `INSERT INTO exposed_ports
       (label, tenant, session_id, incarnation, port, access, host, embed_origins, created_by, created_at, expires_at)
     VALUES
       (@label, @tenant, @session_id, @incarnation, @port, @access, @host, @embed_origins, @created_by, @created_at, @expires_at)
     ON CONFLICT (session_id, port) DO UPDATE SET access = excluded.access, host = excluded.host,
       embed_origins = excluded.embed_origins, created_by = excluded.created_by, expires_at = excluded.expires_at
     RETURNING *`,
  )
  const withdraw = db.prepare('DELETE FROM exposed_ports WHERE session_id = ? AND port = ?')
  const byLabel = db.prepare<[string], ExposedPortRow>('SELECT * FROM exposed_ports WHERE label = ?')
  const ofSession = db.prepare<[string], ExposedPortRow>('SELECT * FROM exposed_ports WHERE session_id = ? ORDER BY port')
  const forgetCodes = db.prepare('DELETE FROM preview_codes WHERE expires_at <= ?')
  const addCode = db.prepare(
    'INSERT INTO preview_codes (hash, label, actor, created_at, expires_at) VALUES (@hash, @label, @actor, @createdAt, @expiresAt)',
  )
  const takeCode = db.prepare<[string, string, number], { actor: string; createdAt: number }>(
    'DELETE FROM preview_codes WHERE hash = ? AND label = ? AND expires_at > ? RETURNING actor, created_at AS createdAt',
  )
  return {
    expose: (wanted, most, written) =>
      write(() => {
        if (isLive.get(wanted.sessionId) === undefined) return { outcome: 'ended' as const }
        const { sessionId, incarnation, port: number } = wanted
        if ((count.get(sessionId, incarnation, number) as number) >= most) return { outcome: 'full' as const }
        forgetEarlier.run(sessionId, incarnation)
        const port = toExposedPort(expose.get(toExposedPortRow(wanted)) as ExposedPortRow)
        events(wanted.sessionId, written.events)
        audit(written.audit)
        return { outcome: 'exposed' as const, port }
      }),
    withdraw: (sessionId, port, written) =>
      write.vital(() => {
        if (withdraw.run(sessionId, port).changes === 0) return false
        events(sessionId, written.events)
        audit(written.audit)
        return true
      }),
    byLabel: async (label): Promise<ExposedPortRecord | undefined> => {
      const row = byLabel.get(label)
      return row && toExposedPort(row)
    },
    ofSession: async (sessionId) => ofSession.all(sessionId).map(toExposedPort),
    addCode: (code, now) =>
      write(() => {
        forgetCodes.run(now)
        addCode.run(code)
      }),
    takeCode: (hash, label, now) => write.vital(() => takeCode.get(hash, label, now)),
  }
}
