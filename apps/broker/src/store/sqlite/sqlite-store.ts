import { diskFull } from '../../host/disk-error.ts'
import type { Store } from '../store.ts'
import { openDatabase } from './engine/database.ts'
import { HeldLog } from './engine/held-log.ts'
import { Reserve } from './engine/reserve.ts'
import { groupCommit } from './engine/writer.ts'
import { sqliteCounts } from './sessions/counts.ts'
import { sqliteEndings } from './sessions/endings.ts'
import { sqliteEnvironments } from './sessions/environments.ts'
import { sqliteEvents } from './sessions/events.ts'
import { sqliteGrants } from './sessions/grants.ts'
import { sqliteIdempotency } from './sessions/idempotency.ts'
import { sqliteJournal } from './sessions/journal.ts'
import { sqlitePreviews } from './sessions/previews.ts'
import { sqliteScopes } from './sessions/scopes.ts'
import { sqliteSessions } from './sessions/sessions.ts'
import { sqliteWorkspaces } from './sessions/workspaces.ts'
import { sqliteAgents } from './tables/agents.ts'
import { sqliteAudit } from './tables/audit.ts'
import { sqliteBoxErrors } from './tables/box-errors.ts'
import { sqliteBrokers } from './tables/brokers.ts'
import { sqliteChallenges } from './tables/challenges.ts'
import { sqliteE2b } from './tables/e2b.ts'
import { sqliteEnrollTokens } from './tables/enroll-tokens.ts'
import { sqliteKeys } from './tables/keys.ts'
import { sqliteSecrets } from './tables/secrets.ts'

/**
 * The store in one SQLite file. Throws `StartError` for a file that it must not touch. `pollMs`: how often it looks for events that
 * another broker of the file has written.
 */
export async function openSqliteStore(path: string, { pollMs = 200 }: { pollMs?: number } = {}): Promise<Store> {
  const db = await openDatabase(path)
  const events = sqliteEvents(db, pollMs)
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
  const counts = sqliteCounts(db)
  const agents = sqliteAgents(db, write, { audit: audit.append, enrollTokens })
  const { sessions, agentSessions } = sqliteSessions(db, write, {
    audit: audit.append,
    events: events.append,
    endings,
    workspace: workspaces.settle,
    forgetWorkspace: workspaces.forget,
    scopes,
    idempotency,
    grant: grants.put,
    counts,
  })
  const ping = db.prepare('SELECT 1')
  return {
    sessions,
    agentSessions,
    counts: counts.store,
    scopes,
    idempotency,
    grants: grants.store,
    agents,
    enrollTokens: enrollTokens.store,
    challenges: sqliteChallenges(db, write),
    keys: sqliteKeys(db, write, audit.append),
    audit: audit.store,
    events: events.store,
    journal: sqliteJournal(db, write, { audit: audit.append, events: events.append, endings }),
    endings: endings.store,
    workspaces: workspaces.store,
    brokers: sqliteBrokers(db, write),
    e2b: sqliteE2b(db, write),
    previews: sqlitePreviews(db, write, { audit: audit.append, events: events.append }),
    environments: sqliteEnvironments(db, write),
    boxErrors: sqliteBoxErrors(db, write),
    secrets: sqliteSecrets(db, write, audit.append),
    async ofScope(tenant, scope) {
      const ownership = await scopes.ownership(tenant, scope)
      const live = await sessions.live(tenant, scope)
      return { ownership, live, agent: live && (await agents.byId(live.agentId)) }
    },
    signingKeys: null,
    mcpServers: null,
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
    // A file answers, or fails.
    closing() {},
    async [Symbol.asyncDispose]() {
      writer[Symbol.dispose]()
      events[Symbol.dispose]()
      db.close()
    },
  }
}
