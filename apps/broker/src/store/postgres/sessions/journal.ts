import { LIVE } from '../../rows/session-row.ts'
import type { JournalStore } from '../../session-store.ts'
import type { Database } from '../engine/database.ts'
import { lockJournal, lockSessions } from '../engine/locks.ts'
import { appendAudit } from '../tables/audit.ts'
import { tellEndings } from './endings.ts'
import { appendEvents } from './events.ts'
import { placeInJournal } from './place-in-journal.ts'

/** How long the place of an instance that is gone is kept: nothing of it can still be under way then. */
const INSTANCE_KEPT_MS = 24 * 3600 * 1000

// An event after the last ones of its session would follow the one that ends the stream.
const OPEN = `SELECT id FROM sessions s WHERE id = ANY($1)
  AND (${LIVE} OR EXISTS (SELECT 1 FROM session_endings e WHERE e.session_id = s.id))`
const MOVE = `INSERT INTO agent_journals (agent_id, instance_id, seq, at) VALUES ($1, $2, $3, $4)
  ON CONFLICT (agent_id, instance_id) DO UPDATE SET seq = excluded.seq, at = excluded.at`
const FORGET = 'DELETE FROM agent_journals WHERE agent_id = $1 AND instance_id <> $2 AND at < $3'

/** What agents tell, once per instance and number: the place in the journal moves in the transaction that stores its entries. */
export function postgresJournal({ write }: Database): JournalStore {
  return {
    accept: (agentId, instanceId, entries, now) =>
      write(async (tx) => {
        await lockJournal(tx, agentId, instanceId)
        const before = await placeInJournal(tx, agentId, instanceId)
        let at = before ?? 0
        const fresh = entries.filter(({ seq }) => {
          if (seq <= at) return false
          at = seq
          return true
        })
        const ids = [...new Set(fresh.flatMap(({ sessionId }) => sessionId ?? []))]
        // No session ends between the look at it and the events of it.
        await lockSessions(tx, ids)
        const open = new Set(ids.length === 0 ? [] : (await tx.rows<{ id: string }>(OPEN, [ids])).map(({ id }) => id))
        for (const { sessionId, recovered, events, audit } of fresh) {
          const isOpen = sessionId !== null && open.has(sessionId)
          const stored = isOpen ? await appendEvents(tx, sessionId, events, { recovered }) : 0
          // Told by an earlier instance: then its audit entry is there, too.
          if (!recovered || stored > 0 || !isOpen) await appendAudit(tx, audit)
        }
        if (at !== before) {
          await tx.run(MOVE, [agentId, instanceId, at, now])
          await tellEndings(tx, agentId, instanceId, at)
        }
        if (before === undefined) await tx.run(FORGET, [agentId, instanceId, now - INSTANCE_KEPT_MS])
        return at
      }),
  }
}
