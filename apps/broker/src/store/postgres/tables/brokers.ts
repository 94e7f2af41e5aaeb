import type { BrokerStore } from '../../store.ts'
import type { Database } from '../engine/database.ts'
import { BrokerLocks, keyOf, PRESENT } from './broker-locks.ts'

export function postgresBrokers(database: Database): BrokerStore & AsyncDisposable {
  const { read, once, write } = database
  const locks = new BrokerLocks(database)
  return {
    async now() {
      const [row] = await read.rows<{ now: number }>(NOW)
      if (row === undefined) throw new Error('the database has told no time')
      return row.now
    },
    leads: () => locks.leads(),
    heartbeat: async (id, pid, now) => {
      await once.run(HEARTBEAT, [id, pid, now])
      await locks.announce(id)
    },
    alive: async (since) =>
      (await read.rows<{ id: string }>('SELECT id FROM brokers WHERE heartbeat_at >= $1', [since])).map(({ id }) => id),
    present: async (ids) => (await read.rows<{ id: string }>(PRESENT, [ids, ids.map(keyOf)])).map(({ id }) => id),
    forget: async (id) => {
      await once.run('DELETE FROM brokers WHERE $1::text IS NULL OR id = $1', [id])
    },
    forgetDead: async (before) => {
      await once.run('DELETE FROM brokers WHERE heartbeat_at < $1', [before])
    },
    issuer: (own, authoritative) =>
      write(async (tx) => {
        await tx.run(authoritative ? SET_ISSUER : OFFER_ISSUER, [own])
        return (await tx.rows<{ value: string }>("SELECT value FROM settings WHERE key = 'issuer'"))[0]?.value ?? own
      }),
    [Symbol.asyncDispose]: () => locks[Symbol.asyncDispose](),
  }
}

/** Of the moment in which it is read, not of the transaction's start. */
const NOW = 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now'
const HEARTBEAT = `INSERT INTO brokers (id, pid, heartbeat_at) VALUES ($1, $2, $3)
  ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at`
const SET_ISSUER = "INSERT INTO settings (key, value) VALUES ('issuer', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
const OFFER_ISSUER = "INSERT INTO settings (key, value) VALUES ('issuer', $1) ON CONFLICT (key) DO NOTHING"
