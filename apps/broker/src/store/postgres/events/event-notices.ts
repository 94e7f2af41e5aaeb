import { once } from 'node:events'
import { backoffMs } from '@boxoffice/kit/backoff'
import { sleep } from '@boxoffice/kit/sleep'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import type { Client } from 'pg'
import { endConnection } from '../engine/connection.ts'
import type { Database } from '../engine/database.ts'

const CHANNEL = 'bxo_events'
/** PostgreSQL takes payloads below 8,000 bytes; ids are ASCII. */
const MAX_PAYLOAD = 7900
/** What is committed within this is told in one notice, as each is a commit of its own. */
const COALESCE_MS = 20
/** How many sessions wait for a connection at most; of more the other brokers hear by their own poll. */
const MAX_WAITING = 10_000
const RECONNECT = { firstMs: 100, mostMs: 2000 }
const END_MS = 2000

export type NoticeListener = {
  /** Another broker has committed events of the session. */
  one(sessionId: string): void
  /** Notices may have been lost. */
  all(): void
}

/**
 * Tells the other brokers of the database which sessions have new events, and hears it from them, over a connection of its own, which
 * comes back when it is lost. The URL must lead to the database itself: a pooler that gives each transaction another connection loses
 * what a connection listens to.
 */
export class EventNotices implements AsyncDisposable {
  readonly #database: Pick<Database, 'connect'>
  readonly #listener: NoticeListener
  readonly #closing = new AbortController()
  readonly #listening: Promise<void>
  readonly #waiting = new Set<string>()
  #client: Client | undefined
  #sending: Promise<void> | undefined

  constructor(database: Pick<Database, 'connect'>, listener: NoticeListener) {
    this.#database = database
    this.#listener = listener
    this.#listening = this.#listen()
  }

  /** Tells of these soon; to be called after the commit. */
  tell(sessionIds: readonly string[]): void {
    if (this.#waiting.size + sessionIds.length > MAX_WAITING) this.#waiting.clear()
    for (const id of sessionIds) this.#waiting.add(id)
    this.#sendSoon()
  }

  /** What has been committed before is still told. */
  async [Symbol.asyncDispose](): Promise<void> {
    await withTimeout(this.#send().catch(nothing), END_MS, nothing)
    this.#closing.abort()
    await withTimeout(this.#listening, END_MS, nothing)
  }

  async #listen(): Promise<void> {
    const { signal } = this.#closing
    let failures = 0
    while (!signal.aborted) {
      const client = await this.#connect().catch(nothing)
      failures = client === undefined ? failures + 1 : 1
      if (client !== undefined) await this.#use(client)
      await sleep(backoffMs(failures, RECONNECT), signal).catch(nothing)
    }
  }

  async #connect(): Promise<Client> {
    const client = await this.#database.connect()
    try {
      const own = (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]?.pid
      client.on('notification', ({ processId, payload = '' }) => {
        if (processId !== own) for (const id of payload.split(',')) this.#listener.one(id)
      })
      await client.query(`LISTEN ${CHANNEL}`)
      return client
    } catch (thrown) {
      await endConnection(client)
      throw thrown
    }
  }

  /** Until the connection is lost, or nobody needs it any more. */
  async #use(client: Client): Promise<void> {
    // Of what came while nobody listened nothing is known.
    this.#listener.all()
    this.#client = client
    this.#sendSoon()
    await once(client, 'end', { signal: this.#closing.signal }).catch(nothing)
    this.#client = undefined
    await endConnection(client)
  }

  #sendSoon(): void {
    if (this.#client === undefined || this.#waiting.size === 0 || this.#closing.signal.aborted) return
    this.#sending ??= sleep(COALESCE_MS, this.#closing.signal)
      .then(() => this.#send())
      .catch(nothing)
      .finally(() => {
        this.#sending = undefined
        this.#sendSoon()
      })
  }

  /** What a lost connection has not told is told by the next one. */
  async #send(): Promise<void> {
    const client = this.#client
    while (client !== undefined && this.#waiting.size > 0) {
      const ids = firstOf(this.#waiting)
      for (const id of ids) this.#waiting.delete(id)
      try {
        await client.query('SELECT pg_notify($1, $2)', [CHANNEL, ids.join()])
      } catch (thrown) {
        for (const id of ids) this.#waiting.add(id)
        throw thrown
      }
    }
  }
}

/** As many as one payload takes, and at least one. */
function firstOf(sessionIds: Iterable<string>): string[] {
  const ids: string[] = []
  let length = 0
  for (const id of sessionIds) {
    length += id.length + 1
    if (length > MAX_PAYLOAD && ids.length > 0) break
    ids.push(id)
  }
  return ids
}

const nothing = (): undefined => undefined
