import { createHash } from 'node:crypto'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { Profile } from '@boxoffice/protocol'
import { type CreationTerms, judgeCreation } from '../../../domain/creation.ts'
import {
  type EndedSession,
  isLive,
  type LiveSession,
  type PlacedSession,
  type ProvisioningSession,
  type Session,
} from '../../../domain/session.ts'
import { diskFull } from '../../../host/disk-error.ts'
import { CHANGING_COLUMNS, isTouch, LIVE, SESSION_COLUMNS, type SessionRow, toRow, toSession } from '../../rows/session-row.ts'
import type { AgentSessionStore, CreateOutcome, SaveOptions, SessionStore, WrittenWithCreation } from '../../session-store.ts'
import { type Db, isUniqueViolation } from '../engine/database.ts'
import type { Held, Write } from '../engine/writer.ts'
import type { AppendAudit } from '../tables/audit.ts'
import type { SqliteCounts } from './counts.ts'
import type { Endings } from './endings.ts'
import type { AppendEvents } from './events.ts'
import type { PutGrant } from './grants.ts'
import type { Idempotency } from './idempotency.ts'
import type { Scopes } from './scopes.ts'
import { listSessions } from './session-list.ts'
import type { ForgetWorkspace, SettleWorkspace } from './workspaces.ts'

/** What is written with a session, in its transaction. */
export type WrittenWith = {
  audit: AppendAudit
  events: AppendEvents
  endings: Endings
  workspace: SettleWorkspace
  forgetWorkspace: ForgetWorkspace
  scopes: Scopes
  idempotency: Idempotency
  grant: PutGrant
  counts: SqliteCounts
}

export function sqliteSessions(
  db: Db,
  write: Write,
  {
    audit: appendAudit,
    events: appendEvents,
    endings,
    workspace: settle,
    forgetWorkspace,
    scopes,
    idempotency,
    grant: putGrant,
    counts,
  }: WrittenWith,
): { sessions: SessionStore; agentSessions: AgentSessionStore } {
  // With the row, whether grants must be looked up: nearly always not, and then `ensure` needs no further look-up.
  const one = (where: string, index = '') =>
    db.prepare<unknown[], SessionRow>(
      `SELECT s.*, EXISTS (SELECT 1 FROM grants WHERE session_id = s.id) AS has_grants FROM sessions s ${index} WHERE ${where}`,
    )
  const byId = one('id = ?')
  const byIds = one('id IN (SELECT value FROM json_each(?))')
  const live = one(`tenant = ? AND scope_type = ? AND scope_id = ? AND ${LIVE}`, 'INDEXED BY sessions_live')
  const due = one(`due_at <= ? AND ${LIVE} ORDER BY due_at LIMIT ?`)
  const provisioning = one("state = 'provisioning'")
  const placedOn = one(
    `agent_id IN (SELECT value FROM json_each(?)) AND ${LIVE} AND sandbox_id IS NOT NULL`,
    'INDEXED BY sessions_agent_live',
  )
  const endedOn = one('agent_id = ? AND ended_at > ?')
  const keptOf = db
    .prepare<[string, string, string]>(
      `SELECT id FROM sessions INDEXED BY sessions_kept
       WHERE tenant = ? AND scope_type = ? AND scope_id = ? AND keep_workspace = 1 ORDER BY created_at DESC LIMIT 20`,
    )
    .pluck()
  const list = listSessions(db)
  const release = db.prepare<[string, string, string]>(
    `UPDATE sessions INDEXED BY sessions_scope SET state = 'terminated', reason = 'released', revision = revision + 1
     WHERE tenant = ? AND scope_type = ? AND scope_id = ? AND state IN ('failed', 'terminated') AND reason <> 'released'`,
  )
  const purge = db.prepare<[number, number]>('DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE ended_at < ? LIMIT ?)')
  const profiles = profileTable(db)
  const insert = db.prepare(
    `INSERT INTO sessions (${SESSION_COLUMNS.join(', ')}) VALUES (${SESSION_COLUMNS.map((name) => `@${name}`).join(', ')})`,
  )
  const update = db.prepare(
    `UPDATE sessions SET ${CHANGING_COLUMNS.map((name) => `${name} = @${name}`).join(', ')}, revision = @revision + 1 WHERE id = @id AND revision = @revision`,
  )
  const catchUp = db.prepare<{ id: string; revision: number }>(
    'UPDATE sessions SET revision = @revision + 1 WHERE id = @id AND revision < @revision',
  )
  // The hot path of `ensure`: names no column of any index, so no index is rewritten. It only moves times forward, so two of
  // them need not exclude each other, only what changes the session otherwise; to that, the raised revision tells. A sandbox that was
  // made anew keeps its state and its activation, so its incarnation is compared as well.
  const touch = db.prepare<[number, number, string, string, number, number]>(
    `UPDATE sessions SET last_activity_at = max(last_activity_at, ?), lease_expires_at = max(lease_expires_at, ?), revision = revision + 1
     WHERE id = ? AND state = ? AND activated_at = ? AND generation = ?`,
  )
  /** Ends that the disk has no space for yet. */
  const held = new Map<string, EndedSession>()
  const read = (row: SessionRow): Session => held.get(row.id) ?? toSession(row, profiles.get(row.profile_hash))
  const readLive = (rows: SessionRow[]): LiveSession[] => rows.map(read).filter(isLive)

  const replace = (before: Session, after: Session): boolean => {
    const changed = isTouch(before, after)
      ? touch.run(after.lastActivityAt, after.leaseExpiresAt, before.id, before.state, after.activatedAt, after.incarnation)
      : update.run({ ...toRow(after), revision: before.revision })
    return changed.changes === 1
  }

  const sessions: SessionStore = {
    byId: async (id) => {
      const row = byId.get(id)
      return row && read(row)
    },
    byIds: async (ids) => byIds.all(JSON.stringify(ids)).map(read),
    live: async (tenant, scope) => {
      const row = live.get(tenant, scope.type, scope.id)
      return row && readLive([row])[0]
    },
    create: async (session, terms, written) => {
      try {
        return await write(() => create(session, terms, written))
      } catch (thrown) {
        if (thrown instanceof Refused) return thrown.outcome
        throw thrown
      }
    },
    save: async (before, after, options = {}) => {
      const save = (): boolean => {
        if (held.has(before.id) || !replace(before, after)) return false
        recordChange(after, options)
        return true
      }
      if (options.refusable) return write(save)
      return isLive(before) && !isLive(after) ? write.vital(save, end(after, options)) : write.vital(save)
    },
    catchUp: async (id, revision) => write.vital(() => catchUp.run({ id, revision }).changes === 1),
    due: async (now, limit) => readLive(due.all(now, limit)),
    provisioning: async () => readLive(provisioning.all()) as ProvisioningSession[],
    keptOf: async (tenant, scope) => keptOf.all(tenant, scope.type, scope.id) as string[],
    list: async (filter) => list(filter).map(read),
    forgetScope: async (tenant, scope, owner, audit) =>
      write.vital(() => {
        if (scopes.owner(tenant, scope) !== owner) return 'changed'
        const found = live.get(tenant, scope.type, scope.id)
        if (found !== undefined && isLive(read(found))) return 'live'
        scopes.forget(tenant, scope)
        // The next owner is not told of the last one's sessions, and does not get its files: all is as if it were released.
        forgetWorkspace(tenant, scope)
        release.run(tenant, scope.type, scope.id)
        appendAudit(audit)
        return 'forgotten'
      }),
    purge: async (before, limit) => write.vital(() => purge.run(before, limit).changes),
  }
  const agentSessions: AgentSessionStore = {
    placedOn: async (agentIds) => readLive(placedOn.all(JSON.stringify(agentIds))) as PlacedSession[],
    endedOn: async (agentId, since) => [
      ...endedOn.all(agentId, since).map((row) => read(row) as EndedSession),
      ...[...held.values()].filter((session) => session.agentId === agentId && session.endedAt > since),
    ],
  }
  return { sessions, agentSessions }

  function create(session: ProvisioningSession, terms: CreationTerms, written: WrittenWithCreation): CreateOutcome {
    const { tenant, scope } = session
    const found = live.get(tenant, scope.type, scope.id)
    // Its end is not written yet, and the index has room for one.
    if (found !== undefined && held.has(found.id)) throw diskFull()
    if (found !== undefined) return { outcome: 'exists' }
    const labeled = terms.labelQuota === null ? 0 : counts.labeled(tenant, terms.labelQuota)
    const verdict = judgeCreation({ owner: scopes.owner(tenant, scope), live: counts.live(tenant), labeled }, terms)
    if (verdict.outcome !== 'admitted') return verdict
    if (verdict.owner !== null) scopes.claim(tenant, scope, verdict.owner, session.createdAt)
    try {
      insert.run({ ...toRow(session), owner: verdict.owner ?? session.createdBy, profile_hash: profiles.put(session.profile) })
    } catch (thrown) {
      // Thrown on, not returned: it must also undo the claim.
      if (isUniqueViolation(thrown)) throw new Refused({ outcome: 'exists' })
      throw thrown
    }
    record(session, written)
    return { outcome: 'created' }
  }

  function recordChange(after: Session, options: SaveOptions): void {
    const { events = [], eventsWaitUntil = null } = options
    const kept = !isLive(after) && endings.keep(after, events, eventsWaitUntil)
    record(after, kept ? { ...options, events: [] } : options)
    if (options.workspace) settle(after, options.workspace)
  }

  /** How an end holds before it is written. The row may have changed since: what is written later holds whatever it was. */
  function end(after: EndedSession, options: SaveOptions): Held<boolean> {
    return {
      hold() {
        held.set(after.id, { ...after, revision: after.revision + 1 })
        return true
      },
      repeat() {
        const row = byId.get(after.id)
        const before = row && toSession(row, after.profile)
        // Its agent has been asked already, so nobody would answer an ending that waits.
        if (before !== undefined && isLive(before) && replace(before, after)) recordChange(after, { ...options, eventsWaitUntil: null })
      },
      release: () => void held.delete(after.id),
      // Of any other end the next broker finds out by itself.
      ...(after.state === 'terminated' && after.reason === 'released'
        ? { change: { kind: 'release', id: after.id, keepWorkspace: after.keepWorkspace } }
        : {}),
    }
  }

  function record(session: Session, { audit = [], events = [], idempotency: key, grant, forgetIdempotency }: SaveOptions): void {
    appendEvents(session.id, events)
    if (forgetIdempotency) idempotency.forget(session.id)
    if (key) idempotency.put(key)
    if (grant) putGrant(grant)
    appendAudit(audit)
  }
}

/** Rolls the transaction back and says why. */
class Refused extends Error {
  readonly outcome: CreateOutcome
  constructor(outcome: CreateOutcome) {
    super(outcome.outcome)
    this.outcome = outcome
  }
}

/** Profiles as sessions were made with them, once per content. */
function profileTable(db: Db) {
  const select = db.prepare<[string], { json: string }>('SELECT json FROM profiles WHERE hash = ?')
  const insert = db.prepare('INSERT OR IGNORE INTO profiles (hash, json) VALUES (?, ?)')
  const byHash = new BoundedCache<string, Profile>(1000)
  const hashes = new WeakMap<Profile, string>()
  return {
    get: (hash: string): Profile => byHash.getOrMake(hash, () => Profile.parse(JSON.parse(select.get(hash)?.json ?? '{}'))),
    put(profile: Profile): string {
      const json = JSON.stringify(profile)
      const hash = hashes.get(profile) ?? createHash('sha256').update(json).digest('base64url')
      insert.run(hash, json)
      hashes.set(profile, hash)
      return hash
    },
  }
}
