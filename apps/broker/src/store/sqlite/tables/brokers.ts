import type { BrokerStore } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

export function sqliteBrokers(db: Db, write: Write): BrokerStore {
  const heartbeat = db.prepare(
    'INSERT INTO brokers (id, pid, heartbeat_at) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at',
  )
  const alive = db.prepare<[number]>('SELECT id FROM brokers WHERE heartbeat_at >= ?').pluck()
  const forget = db.prepare<[{ id: string | null }]>('DELETE FROM brokers WHERE @id IS NULL OR id = @id')
  const forgetDead = db.prepare<[number]>('DELETE FROM brokers WHERE heartbeat_at < ?')
  const setting = db.prepare<[string]>('SELECT value FROM settings WHERE key = ?').pluck()
  const set = db.prepare('INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value')
  return {
    now: async () => Date.now(),
    // Brokers that share a file share a machine: each does the upkeep, as a compare-and-swap settles who was first.
    leads: async () => true,
    heartbeat: async (id, pid, now) => write.vital(() => void heartbeat.run(id, pid, now)),
    alive: async (since) => alive.all(since) as string[],
    // A file says nothing of who has it open.
    present: async (ids) => [...ids],
    forget: async (id) => write.vital(() => void forget.run({ id })),
    forgetDead: async (before) => write.vital(() => void forgetDead.run(before)),
    issuer: async (own, authoritative) =>
      write.vital(() => {
        const shared = authoritative ? undefined : (setting.get('issuer') as string | undefined)
        if (shared === undefined) set.run('issuer', own)
        return shared ?? own
      }),
  }
}
