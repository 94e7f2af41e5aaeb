import type { Store } from '../store.ts'
import { openDatabase } from './engine/database.ts'
import { migrate } from './engine/migrate.ts'
import { EventWatch } from './events/event-watch.ts'
import { postgresCounts } from './sessions/counts.ts'
import { postgresEndings } from './sessions/endings.ts'
import { postgresEnvironments } from './sessions/environments.ts'
import { readEvents } from './sessions/events.ts'
import { postgresGrants } from './sessions/grants.ts'
import { postgresIdempotency } from './sessions/idempotency.ts'
import { postgresJournal } from './sessions/journal.ts'
import { postgresPreviews } from './sessions/previews.ts'
import { postgresScopes } from './sessions/scopes.ts'
import { postgresSessions } from './sessions/sessions.ts'
import { postgresWorkspaces } from './sessions/workspaces.ts'
import { postgresAgents } from './tables/agents.ts'
import { postgresAudit } from './tables/audit.ts'
import { postgresBoxErrors } from './tables/box-errors.ts'
import { postgresBrokers } from './tables/brokers.ts'
import { postgresChallenges } from './tables/challenges.ts'
import { postgresE2b } from './tables/e2b.ts'
import { postgresEnrollTokens } from './tables/enroll-tokens.ts'
import { postgresKeys } from './tables/keys.ts'
import { postgresMcpServers } from './tables/mcp-servers.ts'
import { postgresSecrets } from './tables/secrets.ts'
import { postgresSigningKeys } from './tables/signing-keys.ts'

/** `connections`: how many the broker has for its queries. `pollMs`: how often it looks for events that no notice has told. */
export type PostgresStoreOptions = {
  connections?: number
  pollMs?: number
  /** False: a schema that is older is refused. */
  mayMigrate?: boolean
}

/**
 * The store in a PostgreSQL database, which several brokers share. `url`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Brings its
 * schema up to date; throws `StartError` for a database that does not answer or is newer.
 */
export async function openPostgresStore(
  url: string,
  { connections, pollMs, mayMigrate = true }: PostgresStoreOptions = {},
): Promise<Store> {
  await migrate(url, { mayChange: mayMigrate })
  const parts = new AsyncDisposableStack()
  const database = parts.use(openDatabase(url, connections === undefined ? {} : { connections }))
  const watch = parts.use(new EventWatch(database, pollMs === undefined ? {} : { pollMs }))
  const brokers = parts.use(postgresBrokers(database))
  return {
    ...postgresSessions(database),
    counts: postgresCounts(database),
    scopes: postgresScopes(database),
    idempotency: postgresIdempotency(database),
    grants: postgresGrants(database),
    agents: postgresAgents(database),
    enrollTokens: postgresEnrollTokens(database),
    challenges: postgresChallenges(database),
    keys: postgresKeys(database),
    audit: postgresAudit(database),
    events: { ...readEvents(database.read), watch: (sessionId, more) => watch.watch(sessionId, more) },
    journal: postgresJournal(database),
    endings: postgresEndings(database),
    workspaces: postgresWorkspaces(database),
    brokers,
    e2b: postgresE2b(database),
    previews: postgresPreviews(database),
    environments: postgresEnvironments(database),
    boxErrors: postgresBoxErrors(database),
    secrets: postgresSecrets(database),
    signingKeys: postgresSigningKeys(database),
    mcpServers: postgresMcpServers(database),
    // Nothing holds in memory: what the database cannot write is refused.
    held: { entries: () => [], written() {} },
    async ping() {
      await database.read.rows('SELECT 1')
    },
    closing: () => database.closing(),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
}
