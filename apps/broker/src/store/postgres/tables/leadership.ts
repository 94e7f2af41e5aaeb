import type { Client } from 'pg'
import { endConnection } from '../engine/connection.ts'
import type { Database } from '../engine/database.ts'

/** A number that no other lock of ours has, as those are hashes; with the one of migrations the only ones that are written down. */
const LOCK = 0x626c6561

/**
 * The lock of the one broker that does the work of all. A connection of its own holds it, so that it is free as soon as the broker is
 * gone, or the database has lost it.
 */
export class Leadership implements AsyncDisposable {
  readonly #database: Pick<Database, 'connect'>
  #client: Client | undefined
  #asking: Promise<boolean> | undefined
  #held = false
  #closed = false

  constructor(database: Pick<Database, 'connect'>) {
    this.#database = database
  }

  /** Whether this broker has it, or gets it now. False while the database does not answer: another one may have it. */
  holds(): Promise<boolean> {
    this.#asking ??= this.#ask()
      .catch(() => this.#lose())
      .finally(() => {
        this.#asking = undefined
      })
    return this.#asking
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    await this.#asking
    this.#lose()
  }

  async #ask(): Promise<boolean> {
    if (this.#closed) return false
    const client = this.#client ?? (await this.#connect())
    // Asked each time: only an answer proves that the database has not lost this connection, and the lock with it.
    const { rows } = await client.query<{ held: boolean }>(
      this.#held ? 'SELECT true AS held' : `SELECT pg_try_advisory_lock(${LOCK}) AS held`,
    )
    this.#held = this.#client === client && rows[0]?.held === true
    return this.#held
  }

  async #connect(): Promise<Client> {
    const client = await this.#database.connect()
    this.#client = client
    client.once('end', () => {
      if (this.#client === client) this.#lose()
    })
    return client
  }

  #lose(): false {
    const client = this.#client
    this.#client = undefined
    this.#held = false
    if (client !== undefined) void endConnection(client)
    return false
  }
}
