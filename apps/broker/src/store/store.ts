import type { AgentCapacity, Capability, ProviderReport, RelayPreference, Scope } from '@boxoffice/protocol'
import type { AuditEntry, AuditFilter, AuditRow } from '../domain/audit-entry.ts'
import type { LiveSession } from '../domain/session.ts'
import type { BoxErrorStore } from './box-error-store.ts'
import type { E2bStore } from './e2b-store.ts'
import type { EnvironmentStore } from './environment-store.ts'
import type { McpServerStore } from './mcp-server-store.ts'
import type { PreviewStore } from './preview-store.ts'
import type { SealedKeyStore } from './sealed-key-store.ts'
import type { SecretStore } from './secret-store.ts'
import type {
  AgentSessionStore,
  EndingStore,
  EventStore,
  GrantStore,
  IdempotencyStore,
  JournalStore,
  Ownership,
  ScopeStore,
  SessionCounts,
  SessionStore,
  WorkspaceStore,
} from './session-store.ts'

/**
 * What the broker keeps. Async with compare-and-swap, so that another database can serve several brokers; no SQL outside
 * `store/sqlite`. Every write takes the audit entries of the change and commits them with it [C-72]. Times in milliseconds.
 * On a full disk what is new is refused with 503 `disk_full`; ends, withdrawals and what a report changes are still written.
 */
export interface Store extends AsyncDisposable {
  readonly sessions: SessionStore
  readonly agentSessions: AgentSessionStore
  readonly counts: SessionCounts
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
  readonly e2b: E2bStore
  readonly previews: PreviewStore
  readonly environments: EnvironmentStore
  readonly boxErrors: BoxErrorStore
  readonly secrets: SecretStore
  /** Whose a scope is, its live session and the agent of that, in one look-up: what `ensure` begins with. */
  ofScope(tenant: string, scope: Scope): Promise<ScopeState>
  /** Null where signing keys are files of the data directory. */
  readonly signingKeys: SealedKeyStore | null
  /** Null where MCP servers are one broker's alone, in a file of its data directory. */
  readonly mcpServers: McpServerStore | null
  /** Cheap proof that it answers, for `/readyz`; 503 `disk_full` while nothing new can be written. */
  ping(): Promise<void>
  /** The broker is ending: a database that is silent for a few seconds counts as gone from now on, so that nothing waits for it. */
  closing(): void
}

/** `agent`: of the live session; undefined where there is none. */
export type ScopeState = { ownership: Ownership; live: LiveSession | undefined; agent: AgentRecord | undefined }

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
  /** The domain of its previews, where it has one of its own. */
  previewDomain: string | null
  relay: RelayPreference
  provider: ProviderReport
  /** What it has, as it said last; null for an agent of before. */
  capacity: AgentCapacity | null
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
   * judged it. With `takesOver` another key than the pinned one replaces it.
   */
  register(agent: AgentRecord, before: AgentRecord | undefined, audit: readonly AuditEntry[], takesOver?: boolean): Promise<RegisterOutcome>
  /** False when there is no such agent. */
  forgetKey(id: string, audit: readonly AuditEntry[]): Promise<boolean>
  byId(id: string): Promise<AgentRecord | undefined>
  byInstall(installId: string): Promise<AgentRecord | undefined>
  list(): Promise<AgentRecord[]>
  /** Undefined, and nothing is written, when the agent's latest registration has another token or is of another instance. */
  seen(report: AgentSeen): Promise<AgentNews | undefined>
  /** Has the agent, or with null each one, report all its sandboxes: what it was told to do with them may not have come through. */
  wantWhole(id: string | null, now: number): Promise<void>
  /** Those that were last seen before `before`, or are among `ids`, and have a live session's sandbox. */
  silentWithSessions(before: number, ids: readonly string[]): Promise<AgentRecord[]>
}

/** A report of an agent. `since`: from when on it has to hear what was withdrawn, in Unix milliseconds. */
export type AgentSeen = Pick<AgentRecord, 'id' | 'tokenHash' | 'instanceId' | 'provider' | 'capacity'> & {
  now: number
  since: number
  /** It tells of all sandboxes, so that no whole report is wanted any more that was wanted before `wantedBefore`. */
  isWhole: boolean
  wantedBefore: number
}

/** The agent as its report leaves it, and what there may be to tell it. False: there is nothing, so that nobody has to look. */
export type AgentNews = {
  agent: AgentRecord
  /** Sessions that have ended since. */
  ended: boolean
  /** Grants that were narrowed since. */
  narrowed: boolean
  /** Workspaces that nobody wants any more. */
  unwanted: boolean
  /** A report of all its sandboxes is wanted. */
  wholeWanted: boolean
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
  /** The database's clock, in Unix milliseconds: brokers compare by it what the others have written. */
  now(): Promise<number>
  /**
   * Whether this broker does what one broker of the database has to do (upkeep, metrics of all sessions). At most one does at any
   * time, and another takes over from one that has gone.
   */
  leads(): Promise<boolean>
  heartbeat(id: string, pid: number, now: number): Promise<void>
  /** Ids of those heard of since `since`. */
  alive(since: number): Promise<string[]>
  /**
   * Of these those that may still be at work. One that was killed is not among them at once where the database knows who is connected;
   * one whose connection was cut is missing until its next heartbeat.
   */
  present(ids: readonly string[]): Promise<string[]>
  /** Forgets one, or with null all of them (nobody else can be running). */
  forget(id: string | null): Promise<void>
  /** Forgets those last heard of before `before`: a broker that was killed leaves its row. */
  forgetDead(before: number): Promise<void>
  /** The issuer that brokers of this database share; set by the first, or by one that is told its URL. */
  issuer(own: string, authoritative: boolean): Promise<string>
}
