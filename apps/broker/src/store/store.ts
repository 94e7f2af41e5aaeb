import type { Capability, ProviderReport, RelayPreference, Scope, SessionState } from '@boxoffice/protocol'
import type { AuditEntry, AuditFilter, AuditRow } from '../domain/audit-entry.ts'
import type { EndedSession, LiveSession, PlacedSession, ProvisioningSession, Session } from '../domain/session.ts'
import type { NewSessionEvent } from '../domain/session-event.ts'
import type { WorkspaceFate } from '../domain/workspace.ts'

/**
 * What the broker keeps. Async with compare-and-swap, so that another database can serve several brokers; no SQL outside
 * `store/sqlite`. Every write takes the audit entries of the change and commits them with it [C-72]. Times in milliseconds.
 * On a full disk what is new is refused with 503 `disk_full`; ends, withdrawals and what a report changes are still written.
 */
export interface Store extends AsyncDisposable {
  readonly sessions: SessionStore
  readonly scopes: ScopeStore
  readonly idempotency: IdempotencyStore
  readonly grants: GrantStore
  readonly agents: AgentStore
  readonly enrollTokens: EnrollTokenStore
  readonly challenges: ChallengeStore
  readonly keys: KeyStore
  readonly audit: AuditStore
  readonly events: EventStore
  readonly journal: JournalStore
  readonly endings: EndingStore
  readonly workspaces: WorkspaceStore
  readonly brokers: BrokerStore
  readonly held: HeldStore
  /** Cheap proof that it answers, for `/readyz`; 503 `disk_full` while nothing new can be written. */
  ping(): Promise<void>
}

/** Whose scope it is; `owner` is null until the first `ensure` claims it [C-02]. */
export type Ownership = { owner: string | null; members: readonly string[] }

export type CreateOptions = {
  /** The principal that claims the scope in this transaction when nobody has; null where the authorizer needs no claim. */
  claimFor: string | null
  /** Whose it was when access was decided; when that has changed, access is to be decided again. */
  owner: string | null
  /** Live sessions that a tenant may have; counted in this transaction. */
  maxLive: number
  /** The same for those with a label; null: no more than that. */
  labelQuota: { key: string; value: string; max: number } | null
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
  /** The one live session of a scope. */
  live(tenant: string, scope: Scope): Promise<LiveSession | undefined>
  create(session: ProvisioningSession, options: CreateOptions): Promise<CreateOutcome>
  /** Replaces `before` by `after`; false when the row is no longer `before` (by its revision). */
  save(before: Session, after: Session, options?: SaveOptions): Promise<boolean>
  /** Forgets that a scope is `owner`'s, its members and what it has left behind; else why nothing was changed [C-74]. */
  forgetScope(tenant: string, scope: Scope, owner: string | null, audit: readonly AuditEntry[]): Promise<'forgotten' | 'live' | 'changed'>
  /** Live sessions that the reaper must look at, most overdue first. */
  due(now: number, limit: number): Promise<LiveSession[]>
  provisioning(): Promise<ProvisioningSession[]>
  placedOn(agentId: string): Promise<PlacedSession[]>
  /** Sessions of one agent that ended after `since`. */
  endedOn(agentId: string, since: number): Promise<EndedSession[]>
  /** Ended sessions of a scope whose workspace is to be kept; the latest ones, as ids. */
  keptOf(tenant: string, scope: Scope): Promise<string[]>
  list(filter: SessionFilter): Promise<Session[]>
  liveByState(): Promise<Record<string, number>>
  liveByAgent(): Promise<Record<string, number>>
  /** Live sessions of a tenant in which something runs, as their agents said last. */
  busyOf(tenant: string): Promise<number>
  /** Live sessions of a tenant by state; with a label, those that have it. */
  liveOf(tenant: string, label: { key: string; value: string } | null): Promise<Record<string, number>>
  /** Removes up to `limit` sessions that ended before `before`. */
  purge(before: number, limit: number): Promise<number>
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

export type AgentRecord = {
  id: string
  installId: string
  /** Ed25519, the `x` of its JWK; null until it has registered with a key. */
  publicKey: string | null
  /** The id of the enroll token of its latest registration; null for the configured one. */
  enrollTokenId: string | null
  instanceId: string
  tokenHash: string
  publicUrl: string
  controlUrl: string
  /** Where brokers reach the dataplane: `http(s)://…` or `unix:/path`. */
  dataplaneUrl: string
  relay: RelayPreference
  provider: ProviderReport
  version: string
  clockDriftMs: number
  registeredAt: number
  lastSeenAt: number
}

export type RegisterOutcome =
  | { outcome: 'registered'; id: string }
  /** The install has registered with another key before. */
  | { outcome: 'another_key' }
  /** It has registered once more since `before`. */
  | { outcome: 'changed' }
  /** What the enroll token has become. */
  | { outcome: 'revoked' | 'expired' | 'spent' }

export interface AgentStore {
  /**
   * Inserts, or replaces all but the id of the agent with the same `installId`, and spends the enroll token unless it is the one by
   * which this install with this key came before. Otherwise nothing is written. `before` is the install's record as the caller has
   * judged it.
   */
  register(agent: AgentRecord, before: AgentRecord | undefined, audit: readonly AuditEntry[]): Promise<RegisterOutcome>
  /** False when there is no such agent. */
  forgetKey(id: string, audit: readonly AuditEntry[]): Promise<boolean>
  byId(id: string): Promise<AgentRecord | undefined>
  byInstall(installId: string): Promise<AgentRecord | undefined>
  list(): Promise<AgentRecord[]>
  seen(id: string, now: number, provider: ProviderReport): Promise<void>
}

export type EnrollTokenRecord = {
  id: string
  /** SHA-256 of the token, base64url; the token itself is shown once and never kept. */
  hash: string
  name: string
  oneUse: boolean
  createdAt: number
  expiresAt: number | null
  /** When it enrolled an install last, and the id of that agent. */
  usedAt: number | null
  usedBy: string | null
  revokedAt: number | null
}

export interface EnrollTokenStore {
  insert(token: EnrollTokenRecord, audit: readonly AuditEntry[]): Promise<void>
  byHash(hash: string): Promise<EnrollTokenRecord | undefined>
  /** Newest first. */
  list(): Promise<EnrollTokenRecord[]>
  /** False when there is no such token, or it was revoked before. */
  revoke(id: string, now: number, audit: readonly AuditEntry[]): Promise<boolean>
}

/** What registrations have to sign; one that a broker has given is good at each broker of the database, once. */
export interface ChallengeStore {
  give(nonce: string, until: number, now: number): Promise<void>
  /** False when it was never given, or is taken or too old. */
  take(nonce: string, now: number): Promise<boolean>
}

export type KeyRole = 'operator' | 'user'
export type KeyRight = 'act_as' | 'release' | 'box'
export type KeyRecord = {
  id: string
  /** SHA-256 of the key, base64url; the key itself is shown once and never kept. */
  hash: string
  name: string
  tenant: string
  principal: string
  actorType: 'human' | 'agent'
  role: KeyRole
  rights: readonly KeyRight[]
  /** What its tokens may carry at most; null: whatever policy allows. */
  capabilities: readonly Capability[] | null
  createdAt: number
  revokedAt: number | null
}

export interface KeyStore {
  insert(key: KeyRecord, audit: readonly AuditEntry[]): Promise<void>
  byHash(hash: string): Promise<KeyRecord | undefined>
  byId(id: string): Promise<KeyRecord | undefined>
  /** All of a tenant, newest first; of every tenant with null. */
  list(tenant: string | null): Promise<KeyRecord[]>
  /** False when it was revoked before. */
  revoke(id: string, now: number, audit: readonly AuditEntry[]): Promise<boolean>
  countValid(): Promise<number>
}

export interface AuditStore {
  append(entries: readonly AuditEntry[]): Promise<void>
  query(filter: AuditFilter): Promise<AuditRow[]>
}

/** What the events of a session are read by; they are written with what they tell of. `data` is JSON. */
export type SessionEventRow = { id: number; ts: number; type: string; data: string }

export interface EventStore {
  /** Those after `id`, oldest first. */
  after(sessionId: string, id: number, limit: number): Promise<SessionEventRow[]>
  /** The latest id; 0 when there is none. */
  last(sessionId: string): Promise<number>
  /** Hears of each session that this process has committed events for. */
  onAppended(listener: (sessionId: string) => void): () => void
  /** Cheap: whether another process has committed anything since the last call. */
  changedElsewhere(): Promise<boolean>
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
 * the journal of the agent is stored up to what its answer named.
 */
export interface EndingStore {
  isPending(sessionId: string): Promise<boolean>
  /** The agent has ended the session's sandbox, and has said what it has still to tell; undefined for nothing. */
  answered(sessionId: string, untold: { instanceId: string; seq: number } | undefined): Promise<void>
  /**
   * At the start of a broker: while none ran, nothing could be told, so all wait until `until` (Unix milliseconds) at least. Gives the
   * sessions whose agents have not answered; who asked them may be gone.
   */
  resume(until: number): Promise<string[]>
  /** Appends those that have waited for long enough; an id that is left out stands for what was not told. */
  finishDue(now: number): Promise<void>
}

/** A change that holds in memory for want of space. `at`: Unix milliseconds. */
export type HeldChange = { kind: 'key' | 'enroll_token'; id: string; at: number } | { kind: 'release'; id: string; keepWorkspace: boolean }

/** What a broker that ended on a full disk held in memory and could not write any more; replayed at the next start. */
export interface HeldStore {
  entries(): HeldChange[]
  /** The change has been made once more: it is forgotten, unless there is no space for it yet again. */
  written(change: HeldChange): void
}

/** Brokers on this database; one whose `heartbeatAt` is old has lost its right to what it was creating. */
export interface BrokerStore {
  heartbeat(id: string, pid: number, now: number): Promise<void>
  /** Ids of those heard of since `since`. */
  alive(since: number): Promise<string[]>
  /** Forgets one, or with null all of them (nobody else can be running). */
  forget(id: string | null): Promise<void>
  /** The issuer that brokers of this database share; set by the first, or by one that is told its URL. */
  issuer(own: string, authoritative: boolean): Promise<string>
}
