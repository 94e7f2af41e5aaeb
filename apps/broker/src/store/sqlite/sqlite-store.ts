import { diskFull } from '../../disk-error.ts'
import type { Store } from '../store.ts'
import { sqliteAgents } from './agents.ts'
import { sqliteAudit } from './audit.ts'
import { sqliteBrokers } from './brokers.ts'
import { sqliteChallenges } from './challenges.ts'
import { openDatabase } from './database.ts'
import { sqliteEndings } from './endings.ts'
import { sqliteEnrollTokens } from './enroll-tokens.ts'
import { sqliteEvents } from './events.ts'
import { sqliteGrants } from './grants.ts'
import { HeldLog } from './held-log.ts'
import { sqliteIdempotency } from './idempotency.ts'
import { sqliteJournal } from './journal.ts'
import { sqliteKeys } from './keys.ts'
import { Reserve } from './reserve.ts'
import { sqliteScopes } from './scopes.ts'
import { sqliteSessions } from './sessions.ts'
import { sqliteWorkspaces } from './workspaces.ts'
import { groupCommit } from './writer.ts'

/** The store in one SQLite file. Throws `StartError` for a file that it must not touch. */
export async function openSqliteStore(path: string): Promise<Store> {
  const db = await openDatabase(path)
  const events = sqliteEvents(db)
  const reserve = new Reserve(db, path)
  const held = new HeldLog(path)
  const writer = groupCommit(db, { reserve, held }, events.committed)
  const { write } = writer
  const audit = sqliteAudit(db, write)
  const scopes = sqliteScopes(db, write, audit.append)
  const idempotency = sqliteIdempotency(db, write)
  const workspaces = sqliteWorkspaces(db, write)
  const endings = sqliteEndings(db, write, events.append)
  const grants = sqliteGrants(db, write, audit.append)
  const enrollTokens = sqliteEnrollTokens(db, write, audit.append)
  const ping = db.prepare('SELECT 1')
  return {
    sessions: sqliteSessions(db, write, {
      audit: audit.append,
      events: events.append,
      endings,
      workspace: workspaces.settle,
      forgetWorkspace: workspaces.forget,
      scopes,
      idempotency,
      grant: grants.put,
    }),
    scopes,
    idempotency,
    grants: grants.store,
    agents: sqliteAgents(db, write, { audit: audit.append, enrollTokens }),
    enrollTokens: enrollTokens.store,
    challenges: sqliteChallenges(db, write),
    keys: sqliteKeys(db, write, audit.append),
    audit: audit.store,
    events: events.store,
    journal: sqliteJournal(db, write, { audit: audit.append, events: events.append, endings }),
    endings: endings.store,
    workspaces: workspaces.store,
    brokers: sqliteBrokers(db, write),
    held: {
      entries: () => held.entries(),
      written: (change) => {
        if (!held.has(change)) held.remove(change)
      },
    },
    async ping() {
      ping.get()
      if (reserve.isFull({ now: true })) throw diskFull()
    },
    async [Symbol.asyncDispose]() {
      writer[Symbol.dispose]()
      db.close()
    },
  }
}
