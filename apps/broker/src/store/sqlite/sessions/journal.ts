import { LIVE } from '../../rows/session-row.ts'
import type { JournalStore } from '../../session-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'
import type { AppendAudit } from '../tables/audit.ts'
import type { Endings } from './endings.ts'
import type { AppendEvents } from './events.ts'

/** How long the place of an instance that is gone is kept: nothing of it can still be under way then. */
const INSTANCE_KEPT_MS = 24 * 3600 * 1000

/** What agents tell, once per instance and number: the place in the journal moves in the transaction that stores its entries. */
export function sqliteJournal(
  db: Db,
  write: Write,
  { audit: appendAudit, events: appendEvents, endings }: { audit: AppendAudit; events: AppendEvents; endings: Endings },
): JournalStore {
  const place = db.prepare<[string, string]>('SELECT seq FROM agent_journals WHERE agent_id = ? AND instance_id = ?').pluck()
  const move = db.prepare(
    `INSERT INTO agent_journals (agent_id, instance_id, seq, at) VALUES (?, ?, ?, ?)
     ON CONFLICT (agent_id, instance_id) DO UPDATE SET seq = excluded.seq, at = excluded.at`,
  )
  const forget = db.prepare('DELETE FROM agent_journals WHERE agent_id = ? AND instance_id <> ? AND at < ?')
  // An event after the last ones of its session would follow the one that ends the stream.
  const isLive = db.prepare<[string]>(`SELECT 1 FROM sessions WHERE id = ? AND ${LIVE}`)
  return {
    accept: async (agentId, instanceId, entries, now) =>
      write(() => {
        const before = place.get(agentId, instanceId) as number | undefined
        let at = before ?? 0
        for (const { seq, sessionId, recovered, events, audit } of entries) {
          if (seq <= at) continue
          at = seq
          const live = sessionId !== null && (isLive.get(sessionId) !== undefined || endings.isPending(sessionId))
          const stored = live ? appendEvents(sessionId, events, { recovered }) : 0
          // Told by an earlier instance: then its audit entry is there, too.
          if (!recovered || stored > 0 || !live) appendAudit(audit)
        }
        if (at !== before) {
          move.run(agentId, instanceId, at, now)
          endings.told(agentId, instanceId, at)
        }
        if (before === undefined) forget.run(agentId, instanceId, now - INSTANCE_KEPT_MS)
        return at
      }),
  }
}
