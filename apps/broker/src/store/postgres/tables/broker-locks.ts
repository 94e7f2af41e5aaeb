import { hash } from 'node:crypto'
import type { Client } from 'pg'
import { endConnection } from '../engine/connection.ts'
import type { Database } from '../engine/database.ts'

/** A number that no other lock of ours has, as those are hashes; with the one of migrations the only ones that are written down. */
const LEADER = 0x626c6561
/** The first of two numbers, a space of its own: the second is of the broker. */
const PRESENCE = 0x62707265

/**
 * The locks that a broker holds for as long as it lives: that it is there, and that of the one which does the work of all. A connection of
 * its own holds them, so that they are free as soon as the broker is gone, or the database has lost it.
 */
export class BrokerLocks implements AsyncDisposable {
  readonly #database: Pick<Database, 'connect'>
  #client: Client | undefined
  /** A connection answers one question after the other. */
  #last: Promise<unknown> = Promise.resolve()
  #asking: Promise<boolean> | undefined
  #leads = false
  /** Brokers whose presence the connection says. */
  readonly #present = new Set<string>()
  #closed = false

  constructor(database: Pick<Database, 'connect'>) {
    this.#database = database
  }

  /** Whether this broker does the work of all, or does from now on. False while the database does not answer: another one may do it. */
  leads(): Promise<boolean> {
    this.#asking ??= this.#inTurn(async (client) => {
      // Asked each time: only an answer proves that the database has not lost this connection, and the lock with it.
      const { rows } = await client.query<{ held: boolean }>(
        this.#leads ? 'SELECT true AS held' : `SELECT pg_try_advisory_lock(${LEADER}) AS held`,
      )
      this.#leads = this.#client === client && rows[0]?.held === true
    })
      .then(() => this.#leads)
      .finally(() => {
        this.#asking = undefined
      })
    return this.#asking
  }

  /** Says that a broker is there, for as long as the database has the connection. Where that fails, the next heartbeat says it. */
  async announce(id: string): Promise<void> {
    if (this.#present.has(id)) return
    await this.#inTurn(async (client) => {
      await client.query('SELECT pg_advisory_lock_shared($1, $2)', [PRESENCE, keyOf(id)])
      if (this.#client === client) this.#present.add(id)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    await this.#last
    this.#lose(this.#client)
  }

  #inTurn(ask: (client: Client) => Promise<void>): Promise<void> {
    const turn = this.#last.then(async () => {
      if (this.#closed) return
      try {
        await ask(this.#client ?? (await this.#connect()))
      } catch {
        this.#lose(this.#client)
      }
    })
    this.#last = turn
    return turn
  }

  async #connect(): Promise<Client> {
    const client = await this.#database.connect()
    this.#client = client
    client.once('end', () => this.#lose(client))
    return client
  }

  /** Does nothing where another connection has taken its place. */
  #lose(client: Client | undefined): void {
    if (client === undefined || this.#client !== client) return
    this.#client = undefined
    this.#leads = false
    this.#present.clear()
    void endConnection(client)
  }
}

/** Of these brokers those that are announced over a connection which the database has. */
export const PRESENT = `SELECT id FROM unnest($1::text[], $2::int[]) AS broker (id, key) WHERE EXISTS (
  SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid::bigint = ${PRESENCE}
    AND objid::bigint = key::bigint & 4294967295 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`

/** 32 bits of a hash. Of two brokers with one key, the one that is gone is found by its silence alone. */
export const keyOf = (id: string): number => Buffer.from(hash('sha256', id, 'hex').slice(0, 8), 'hex').readInt32BE()
