import { BoxofficeError, type RelayPreference, type Scope, type SessionState } from '@boxoffice/protocol'
import { type Access, type AccessMode, type Authorizer, mayRelease } from '../access/authorizer.ts'
import type { Principal } from '../access/principals.ts'
import { type AuditEvent, auditEntry, type Origin } from '../audit/audit.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import type { IssuedToken, TokenIssuer } from '../tokens/issuer.ts'
import type { Acquisition } from './acquisition.ts'
import type { Repeatable } from './idempotency.ts'
import type { SessionLedger } from './ledger.ts'
import { ended, noSession, requirePlaced } from './refusals.ts'
import { threadOf } from './scopes.ts'
import { isLive, isPlaced, type PlacedSession, type Session } from './session.ts'

export type NegotiateRequest = {
  scope: Scope
  mode: 'get' | 'ensure'
  shape: 'mvp' | 'full'
  /** Null: the default one for a new session, any for one that exists. */
  profile: string | null
  relay: RelayPreference
  labels: Record<string, string>
  onMismatch: 'warn' | 'fail'
  /** Whole seconds that the caller waits for a sandbox that starts [C-17]. */
  wait: number
  repeatable: Repeatable | null
}

/** A session that the caller may use, where its dataplane is, and a fresh token for it. */
export type Grant = { session: PlacedSession; agent: AgentRecord; token: IssuedToken; warnings: string[]; replayed: boolean }

export type SessionView = { session: Session; agent: AgentRecord | undefined; token: IssuedToken | null }

export type SessionServiceOptions = {
  store: Store
  ledger: SessionLedger
  acquisition: Acquisition
  authorizer: Authorizer
  issuer: TokenIssuer
  now: () => number
}

/** How long an expired or failed session is told apart from one that never existed [contract 2.5]. */
export const TOMBSTONE_MS = 24 * 3600 * 1000

/** What clients do with sessions. Every refusal is a `BoxofficeError` with the codes of contract 2.5. */
export class SessionService {
  readonly #options: SessionServiceOptions

  constructor(options: SessionServiceOptions) {
    this.#options = options
  }

  /** `get` or `ensure`: the scope's session with a fresh token [4-04, 4-05]. */
  async negotiate(principal: Principal, request: NegotiateRequest, origin: Origin): Promise<Grant> {
    const { ledger, acquisition } = this.#options
    const { session, warnings, replayed, repeat } = await acquisition.resolve(principal, request, origin)
    const { token, agent, change } = await this.#grant(session, principal, async (issue) =>
      ledger.change(
        session,
        { type: 'touched', lease: true },
        { idempotency: repeat, audit: (after) => [this.#entry('sandbox.session.acquire', origin, after, issue(after))] },
      ),
    )
    if (change.refused !== undefined || !isPlaced(change.session)) {
      if (request.mode === 'get') throw noSession('this scope has no session; call with mode "ensure" to create one')
      // It ended between the look-up and the token: the next round makes another one.
      return this.negotiate(principal, request, origin)
    }
    return { session: change.session, agent, token, warnings, replayed }
  }

  /** One session by id; with a token for live ones unless `withToken` is false [4-82]. */
  async read(principal: Principal, id: string, withToken: boolean, origin: Origin): Promise<SessionView> {
    const { store } = this.#options
    const { session } = await this.#load(principal, id)
    if (session.state === 'terminated') throw ended(session)
    const agent = await store.agents.byId(session.agentId)
    if (!withToken || !isPlaced(session)) return { session, agent, token: null }
    const token = this.#options.issuer.session(session, principal.id)
    await store.audit.append([this.#entry('sandbox.session.read', origin, session, token)])
    return { session, agent, token }
  }

  /** A new token; the old one stays good until its own end [4-30, 4-32]. */
  async refresh(principal: Principal, id: string, origin: Origin): Promise<IssuedToken> {
    const { ledger } = this.#options
    const { session } = await this.#load(principal, id)
    const placed = requirePlaced(session)
    // Only an MVP client, which has no heartbeat, says by refreshing that it still needs the session [C-51].
    const lease = placed.shape === 'mvp' && placed.state !== 'suspended'
    const { token, change } = await this.#grant(placed, principal, async (issue) => {
      const audit = (after: Session) => [this.#entry('sandbox.session.refresh', origin, after, issue(after))]
      return lease ? ledger.change(placed, { type: 'touched', lease: true }, { audit }) : this.#auditOnly(placed, audit)
    })
    requirePlaced(change.session)
    return token
  }

  /** The session whose events the caller may follow, by the rules of `read`; who resumes is told of its end as well. */
  async follow(principal: Principal, id: string, resuming: boolean): Promise<Session> {
    const { session } = await this.#load(principal, id, 'use', resuming)
    if (session.state === 'terminated' && !resuming) throw ended(session)
    return session
  }

  /** Ends the session for everyone on the scope [C-54]; what it made is torn down in the background [C-25]. */
  async release(principal: Principal, id: string, keepWorkspace: boolean, origin: Origin): Promise<void> {
    const { ledger, acquisition } = this.#options
    const { session, access } = await this.#load(principal, id, 'release')
    if (!mayRelease(principal, access))
      throw new BoxofficeError('FORBIDDEN', 'releasing a session takes its owner or a key with the right "release"')
    const change = await ledger.change(
      session,
      { type: 'released', keepWorkspace },
      { audit: (after) => [this.#entry('sandbox.session.release', origin, after, null)] },
    )
    if (change.refused !== undefined) throw noSession('the session has been released')
    acquisition.cancel(id)
  }

  /** Those that the caller may use; operators see their whole tenant. */
  async list(principal: Principal, filter: ListFilter): Promise<Session[]> {
    const who = principal.role === 'operator' ? null : principal.id
    return this.#options.store.sessions.list({ ...filter, tenant: principal.tenant, principal: who })
  }

  /** Finds a session that the caller may use: 404 for another tenant's, 403 without access [C-04]. */
  async #load(
    principal: Principal,
    id: string,
    mode: AccessMode = 'use',
    released = false,
  ): Promise<{ session: Session; access: Access }> {
    const { store, authorizer, ledger, now } = this.#options
    const found = await store.sessions.byId(id)
    if (found === undefined || found.tenant !== principal.tenant) throw noSession()
    const { access } = await authorizer.access(principal, found.scope, await store.scopes.ownership(found.tenant, found.scope), mode)
    if (access === 'denied' || access === 'claimable') throw new BoxofficeError('FORBIDDEN', 'the caller may not use this session')
    // The reaper may be a second late; the hard TTL is not [4-92].
    const session =
      isLive(found) && now() >= found.hardExpiresAt ? (await ledger.change(found, { type: 'tick', suspend: [] })).session : found
    const forgotten = !isLive(session) && now() >= session.endedAt + TOMBSTONE_MS
    if (forgotten || (!released && session.state === 'terminated' && session.reason === 'released')) throw noSession()
    return { session, access }
  }

  /** Issues a token for the session exactly as it is saved with the audit entry of the issuance. */
  async #grant(
    session: PlacedSession,
    principal: Principal,
    save: (issue: (after: Session) => IssuedToken | null) => Promise<{ session: Session; refused?: string }>,
  ) {
    const { issuer, store } = this.#options
    let token: IssuedToken | null = null
    const issue = (after: Session): IssuedToken | null => {
      token = isPlaced(after) ? issuer.session(after, principal.id) : null
      return token
    }
    const change = await save(issue)
    const agent = await store.agents.byId(session.agentId)
    if (agent === undefined) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent of this session is not known any more')
    return { token: token ?? issuer.session(session, principal.id), agent, change }
  }

  async #auditOnly(session: PlacedSession, audit: (after: Session) => ReturnType<typeof auditEntry>[]) {
    await this.#options.store.audit.append(audit(session))
    return { session }
  }

  #entry(event: AuditEvent, origin: Origin, session: Session, token: IssuedToken | null) {
    return auditEntry(event, origin, {
      ts: this.#options.now(),
      threadId: threadOf(session.scope),
      sessionId: session.id,
      sandboxId: isPlaced(session) ? session.sandboxId : isLive(session) ? null : (session.placed?.sandboxId ?? null),
      tokenHash: token?.hash ?? null,
    })
  }
}

export type ListFilter = {
  state: SessionState | null
  scopeType: string | null
  scopeId: string | null
  label: { key: string; value: string } | null
  limit: number
  after: { createdAt: number; id: string } | null
}
