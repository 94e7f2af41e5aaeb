import type { Capability, Scope, SessionState } from '@boxoffice/protocol'
import type { AuditEntry } from '../domain/audit-entry.ts'
import type { CreationTerms } from '../domain/creation.ts'
import type { EndedSession, LiveSession, PlacedSession, ProvisioningSession, Session } from '../domain/session.ts'
import type { NewSessionEvent } from '../domain/session-event.ts'
import type { WorkspaceFate } from '../domain/workspace.ts'

/** Whose scope it is; `owner` is null until the first `ensure` claims it [C-02]. */
export type Ownership = { owner: string | null; members: readonly string[] }

/** What is written with a new session, in its transaction. */
export type WrittenWithCreation = {
  idempotency: IdempotencyRecord | null
  audit: readonly AuditEntry[]
  events: readonly NewSessionEvent[]
  /** What the actor that it is made for has asked for. */
  grant?: GrantRecord | null
}

export type CreateOutcome =
  | { outcome: 'created' }
  /** Somebody else was first: the partial unique index decides [C-21]. */
  | { outcome: 'exists' }
  /** The scope has come to another owner, or to none, in the meantime. */
  | { outcome: 'claimed' }
  | { outcome: 'quota'; max: number }

export type SaveOptions = {
  audit?: readonly AuditEntry[]
  /** What the change tells those who follow the session. */
  events?: readonly NewSessionEvent[]
  /** The events are the last ones, and wait for what the session's agent has still to tell, until this time [contract 2.4]. */
  eventsWaitUntil?: number | null
  /** Recorded (or marked complete) with the change. */
  idempotency?: IdempotencyRecord | null
  /** What becomes of the scope's workspace with the change. */
  workspace?: WorkspaceFate | null
  /** What an actor was granted with the change. */
  grant?: GrantRecord | null
  /** Forgets what is recorded under this session: its creation failed and may be tried again [C-16]. */
  forgetIdempotency?: boolean
  /** The change serves a client's wish for more, so that a full disk refuses it; others are written from what is kept for that. */
  refusable?: boolean
}

export type SessionFilter = {
  tenant: string
  /** Only scopes that this principal owns or is a member of; null: all. */
  principal: string | null
  state: SessionState | null
  scopeType: string | null
  scopeId: string | null
  label: { key: string; value: string } | null
  limit: number
  after: { createdAt: number; id: string } | null
}

export interface SessionStore {
  byId(id: string): Promise<Session | undefined>
  /** Those of them that are there, in any order. */
  byIds(ids: readonly string[]): Promise<Session[]>
  /** The one live session of a scope. */
  live(tenant: string, scope: Scope): Promise<LiveSession | undefined>
  /** Makes it if `judgeCreation` admits it by what holds in the transaction; else nothing is written. */
  create(session: ProvisioningSession, terms: CreationTerms, written: WrittenWithCreation): Promise<CreateOutcome>
  /** Replaces `before` by `after`; false when the row is no longer `before` (by its revision). */
  save(before: Session, after: Session, options?: SaveOptions): Promise<boolean>
  /**
   * Raises the revision of a session above that of an order which its agent remembers, where the database has a lower one: it was put
   * back to an earlier state. False when it was not.
   */
  catchUp(id: string, revision: number): Promise<boolean>
  /** Forgets that a scope is `owner`'s, its members and what it has left behind; else why nothing was changed [C-74]. */
  forgetScope(tenant: string, scope: Scope, owner: string | null, audit: readonly AuditEntry[]): Promise<'forgotten' | 'live' | 'changed'>
  /** Live sessions that the reaper must look at, most overdue first. */
  due(now: number, limit: number): Promise<LiveSession[]>
  provisioning(): Promise<ProvisioningSession[]>
  /** Ended sessions of a scope whose workspace is to be kept; the latest ones, as ids. */
  keptOf(tenant: string, scope: Scope): Promise<string[]>
  list(filter: SessionFilter): Promise<Session[]>
  /** Removes up to `limit` sessions that ended before `before`. */
  purge(before: number, limit: number): Promise<number>
}

/** The sessions of agents, for what they report and what they are told. */
export interface AgentSessionStore {
  /** Live ones that have a sandbox on one of these agents. */
  placedOn(agentIds: readonly string[]): Promise<PlacedSession[]>
  /** Those that ended after `since`. */
  endedOn(agentId: string, since: number): Promise<EndedSession[]>
}

/** How many live sessions there are. */
export interface SessionCounts {
  liveByState(): Promise<Record<string, number>>
  /** Of these agents; one that has none is left out. */
  liveByAgent(agentIds: readonly string[]): Promise<Record<string, number>>
  /** Of a tenant, those in which something runs, as their agents said last. */
  busyOf(tenant: string): Promise<number>
  /** Of a tenant by state; with a label, those that have it. */
  liveOf(tenant: string, label: { key: string; value: string } | null): Promise<Record<string, number>>
}

/** Which agents hold what of a scope's workspace [C-55]. Written with the sessions that it comes from. */
export interface WorkspaceStore {
  /** Agents that have the workspace, latest first. */
  holders(workspaceId: string): Promise<string[]>
  /** Workspaces on an agent that nobody wants any more. */
  unwantedOn(agentId: string): Promise<string[]>
  /** The agent has removed an unwanted one. */
  removed(workspaceId: string, agentId: string): Promise<void>
}

export interface ScopeStore {
  ownership(tenant: string, scope: Scope): Promise<Ownership>
  /**
   * Replaces the members, and makes `owner` the owner of a scope that has none. Undefined, and nothing is changed, when the
   * scope is somebody else's than `known` by now.
   */
  setMembers(change: MembersChange, audit: readonly AuditEntry[]): Promise<{ owner: string; removed: string[] } | undefined>
}

export type MembersChange = {
  tenant: string
  scope: Scope
  known: string | null
  owner: string
  members: readonly string[]
  now: number
}

/** What a key stands for: ids only, never a token [C-15]. */
export type IdempotencyRecord = {
  tenant: string
  principal: string
  route: string
  key: string
  bodyHash: string
  sessionId: string
  expiresAt: number
}

export interface IdempotencyStore {
  find(tenant: string, principal: string, route: string, key: string, now: number): Promise<IdempotencyRecord | undefined>
  purge(now: number): Promise<void>
}

/** What one actor may do in a session. Who made it and has no record has everything that policy allows. */
export type GrantRecord = {
  sessionId: string
  actor: string
  /** Who negotiated it, and when. */
  principal: string
  grantedAt: number
  /** The widest that it has asked for; null: everything that policy allows. What is saved is united with what is there. */
  capabilities: readonly Capability[] | null
  /** What policy has allowed tokens that were issued after `narrowedAt`. */
  carried: readonly Capability[]
  /**
   * Tokens with `iat` ≤ `narrowedAt` (Unix seconds) grant no more than this; null: nothing was narrowed [C-57]. What was narrowed later
   * than the record that is put knows stays.
   */
  narrowedTo: readonly Capability[] | null
  narrowedAt: number | null
}

export interface GrantStore {
  find(sessionId: string, actor: string): Promise<GrantRecord | undefined>
  /** The one that the principal negotiated last. */
  lastBy(sessionId: string, principal: string): Promise<GrantRecord | undefined>
  /** Those of an agent's sessions that were narrowed after `since` (Unix seconds). */
  narrowedOn(agentId: string, since: number): Promise<GrantRecord[]>
  put(grants: readonly GrantRecord[], audit: readonly AuditEntry[]): Promise<void>
  /**
   * Replaces all that the principal negotiated, or `own` where it has no record of its own, by what `narrow` makes of it, in one
   * transaction; gives what it has made. Works on a full disk.
   */
  withdraw(own: GrantRecord, narrow: (grant: GrantRecord) => GrantRecord): Promise<GrantRecord[]>
}

/** What the events of a session are read by; they are written with what they tell of. `data` is JSON. */
export type SessionEventRow = { id: number; ts: number; type: string; data: string }

export interface EventStore {
  /** Those after `id`, oldest first. */
  after(sessionId: string, id: number, limit: number): Promise<SessionEventRow[]>
  /** The latest id; 0 when there is none. */
  last(sessionId: string): Promise<number>
  /**
   * Calls `more` when there may be events of the session that were not there before, whichever broker of the database has written them,
   * until the returned function is called. At once for what this broker writes. `more` must not throw.
   */
  watch(sessionId: string, more: () => void): () => void
}

/** One entry of an agent's journal as it is stored; its session is checked to live. */
export type JournalRecord = {
  seq: number
  sessionId: string | null
  /** It may be there already, told by an earlier instance of the agent. */
  recovered: boolean
  events: readonly NewSessionEvent[]
  audit: readonly AuditEntry[]
}

export interface JournalStore {
  /** Stores, in one transaction, what is new after the instance's last stored number; gives the one that holds then. */
  accept(agentId: string, instanceId: string, entries: readonly JournalRecord[], now: number): Promise<number>
}

/**
 * The last events of ended sessions that wait for what their agents have still to tell [contract 2.4]. They are appended as soon as
 * the journal of the agent is stored up to what its response named.
 */
export interface EndingStore {
  isPending(sessionId: string): Promise<boolean>
  /** The agent has ended the session's sandbox, and has said what it has still to tell; undefined for nothing. */
  answered(sessionId: string, untold: { instanceId: string; seq: number } | undefined): Promise<void>
  /**
   * Once brokers and database are there again: before, nothing could be told, so all wait until `until` (Unix milliseconds) at least.
   * Gives the sessions whose agents have not answered; who asked them may be gone.
   */
  resume(until: number): Promise<string[]>
  /** Appends those that have waited for long enough; an id that is left out stands for what was not told. */
  finishDue(now: number): Promise<void>
}
