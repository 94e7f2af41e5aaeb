import { type Actor, BoxofficeError, type RelayPreference } from '@boxoffice/protocol'
import { resolveActor } from '../access/actor.ts'
import { type AccessMode, type Authorizer, type Decision, mayRelease } from '../access/authorizer.ts'
import type { Principal } from '../access/principals.ts'
import { agentOf } from '../agents/agent-of.ts'
import { requireMode } from '../agents/dataplane-mode.ts'
import type { AuditEvent, Origin } from '../domain/audit-entry.ts'
import type { Capabilities } from '../domain/capabilities.ts'
import { ended, noSession, requirePlaced } from '../domain/refusals.ts'
import { isLive, isPlaced, type PlacedSession, type Session } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import { heartbeatEvent } from '../domain/session-event.ts'
import type { AgentRecord, SessionFilter, Store } from '../store/store.ts'
import type { IssuedToken, TokenIssuer } from '../tokens/issuer.ts'
import type { Acquisition } from './acquisition.ts'
import type { Grants, Issuance } from './grants.ts'
import type { Members } from './members.ts'
import type { NegotiateRequest } from './negotiate-request.ts'
import type { Change, SessionWriter } from './session-writer.ts'

/** A session that the caller may use, where its dataplane is, and a fresh token for it. */
export type Grant = {
  session: PlacedSession
  agent: AgentRecord
  token: IssuedToken
  /** Whether this caller wants the relay, as far as it says. */
  relay: RelayPreference | null
  warnings: string[]
  replayed: boolean
}

export type SessionView = { session: Session; agent: AgentRecord | undefined; token: IssuedToken | null }

/**
 * `actor`: for whom the token is; undefined: as the caller negotiated last. `asked`: what the token that is renewed was asked for with;
 * null: all of the actor's grant.
 */
type RefreshOptions = { actor: Actor | undefined; asked: Capabilities | null; movesLease: boolean }

type Renewal = RefreshOptions & { principal: Principal; decision: Decision; event: AuditEvent; origin: Origin }

export type SessionServiceOptions = {
  store: Store
  writer: SessionWriter
  acquisition: Acquisition
  authorizer: Authorizer
  grants: Grants
  members: Members
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

  /** The scope's session, made if the mode says so, with a fresh token [4-04, 4-05, 4-72]. */
  async negotiate(principal: Principal, request: NegotiateRequest, origin: Origin): Promise<Grant> {
    const { writer, acquisition, grants, members } = this.#options
    const actor = resolveActor(principal, request.actor).id
    const by = { ...origin, actor }
    const { session, decision, isNew, warnings, replayed, repeat } = await acquisition.resolve(principal, request, by)
    if (request.members !== null) await members.set(principal, session, request.members, by)
    if (request.relay !== null) requireMode(request.relay, await agentOf(this.#options.store.agents, session))
    const issuance = await grants.negotiate(session, { principal, actor, decision }, request.wanted, isNew)
    const { token, agent, change } = await this.#issue(session, issuance, (sign) =>
      writer.change(
        session,
        { type: 'touched' },
        {
          refusable: true,
          idempotency: repeat,
          grant: issuance.record,
          audit: (after) => [this.#entry('sandbox.session.acquire', by, after, sign(after))],
        },
      ),
    )
    if (change.refused !== undefined || !isPlaced(change.session)) {
      if (request.mode === 'get') throw noSession('this scope has no session; call with mode "ensure" to create one')
      // It ended between the look-up and the token: the next round makes another one.
      return this.negotiate(principal, request, origin)
    }
    warnings.push(...request.wanted.unknown.map((name) => `unknown_capability:${name}`))
    return { session: change.session, agent, token, relay: request.relay, warnings, replayed }
  }

  /** One session by id; with a token for live ones unless `withToken` is false [4-82]. */
  async read(principal: Principal, id: string, { withToken }: { withToken: boolean }, origin: Origin): Promise<SessionView> {
    const { store } = this.#options
    const { session, decision } = await this.#load(principal, id)
    if (session.state === 'terminated') throw ended(session)
    if (!withToken || !isPlaced(session)) return { session, agent: await store.agents.byId(session.agentId), token: null }
    return this.#renew(session, {
      principal,
      decision,
      actor: undefined,
      asked: null,
      event: 'sandbox.session.read',
      origin,
      movesLease: false,
    })
  }

  /**
   * A new token; the old one stays good until its own end [4-30, 4-32]. An MVP client, which has no heartbeat, says by it that it
   * still needs its session [C-51]: where `movesLease`, and only for sessions that such a client made.
   */
  async refresh(principal: Principal, id: string, { actor, asked, movesLease }: RefreshOptions, origin: Origin): Promise<IssuedToken> {
    const { session, decision } = await this.#load(principal, id)
    const placed = requirePlaced(session)
    const renewed = await this.#renew(placed, {
      ...{ principal, decision, actor, asked, event: 'sandbox.session.refresh', origin },
      movesLease: movesLease && placed.shape === 'mvp',
    })
    requirePlaced(renewed.session)
    return renewed.token
  }

  /** Moves the lease; gives no token and wakes nothing [4-84]. */
  async heartbeat(principal: Principal, id: string): Promise<PlacedSession> {
    const { writer, now } = this.#options
    const { session } = await this.#load(principal, id)
    const change = await writer.change(
      requirePlaced(session),
      { type: 'heartbeat' },
      { refusable: true, events: (before, after) => heartbeatEvent(before, after, now()) },
    )
    return requirePlaced(change.session)
  }

  /** The session whose events the caller may follow, by the rules of `read`; its end is told for as long as its tombstone is kept. */
  async follow(principal: Principal, id: string): Promise<Session> {
    return (await this.#load(principal, id, { released: true })).session
  }

  /** Ends the session for everyone on the scope [C-54]; what it made is torn down in the background [C-25]. */
  async release(principal: Principal, id: string, { keepWorkspace }: { keepWorkspace: boolean }, origin: Origin): Promise<void> {
    const { writer, acquisition } = this.#options
    const { session, decision } = await this.#load(principal, id, { mode: 'release' })
    if (!mayRelease(principal, decision.access))
      throw new BoxofficeError('FORBIDDEN', 'releasing a session takes its owner or a key with the right "release"')
    const change = await writer.change(
      session,
      { type: 'released', keepWorkspace },
      { audit: (after) => [this.#entry('sandbox.session.release', origin, after, null)] },
    )
    if (change.refused !== undefined) throw noSession('the session has been released')
    acquisition.cancel(id)
  }

  /** Those that the caller may use; operators see their whole tenant. */
  async list(principal: Principal, filter: Omit<SessionFilter, 'tenant' | 'principal'>): Promise<Session[]> {
    const who = principal.role === 'operator' ? null : principal.id
    return this.#options.store.sessions.list({ ...filter, tenant: principal.tenant, principal: who })
  }

  /**
   * Finds a session that the caller may use: 404 for another tenant's, 403 without access [C-04]. One that was released is as good
   * as never there, unless it is asked for.
   */
  async #load(
    principal: Principal,
    id: string,
    { mode = 'use', released = false }: { mode?: AccessMode; released?: boolean } = {},
  ): Promise<{ session: Session; decision: Decision }> {
    const { store, authorizer, writer, now } = this.#options
    const found = await store.sessions.byId(id)
    if (found === undefined || found.tenant !== principal.tenant) throw noSession()
    const decision = await authorizer.access(principal, found.scope, await store.scopes.ownership(found.tenant, found.scope), mode)
    // Nobody's any more: its thread was deleted.
    if (decision.access === 'claimable' && !isLive(found)) throw noSession()
    if (decision.access === 'denied' || decision.access === 'claimable')
      throw new BoxofficeError('FORBIDDEN', 'the caller may not use this session')
    const session = await writer.current(found)
    const forgotten = !isLive(session) && now() >= session.endedAt + TOMBSTONE_MS
    if (forgotten || (!released && session.state === 'terminated' && session.reason === 'released')) throw noSession()
    return { session, decision }
  }

  /** A token for whom the caller acts for, evaluated anew [C-57]. */
  async #renew(session: PlacedSession, { principal, decision, actor: claimed, asked, event, origin, movesLease }: Renewal) {
    const { writer, grants, store } = this.#options
    const actor = claimed?.id ?? (await grants.actorOf(session, principal))
    // Who acts for somebody else needs the right to it each time.
    resolveActor(principal, claimed ?? { type: principal.actorType, id: actor })
    const issuance = await grants.renew(session, { principal, actor, decision }, asked)
    const { record } = issuance
    const audit = (after: Session, token: IssuedToken | null) => [this.#entry(event, { ...origin, actor }, after, token)]
    const { token, agent, change } = await this.#issue(session, issuance, async (sign): Promise<Change> => {
      if (movesLease)
        return writer.change(
          session,
          { type: 'heartbeat' },
          { refusable: true, grant: record, audit: (after) => audit(after, sign(after)) },
        )
      const entries = audit(session, sign(session))
      await (record === null ? store.audit.append(entries) : store.grants.put([record], entries))
      return { session }
    })
    return { session: change.session, agent, token }
  }

  /** Issues a token for the session exactly as it is saved with the audit entry of the issuance. */
  async #issue(session: PlacedSession, issuance: Issuance, save: (sign: (after: Session) => IssuedToken | null) => Promise<Change>) {
    const { issuer, grants } = this.#options
    const signed = (placed: PlacedSession) => issuer.session(placed, issuance.actor, issuance.capabilities, issuance.notBefore)
    let token: IssuedToken | null = null
    const change = await save((after) => {
      token = isPlaced(after) ? signed(after) : null
      return token
    })
    grants.tell(session, issuance)
    return { token: token ?? signed(session), agent: await agentOf(this.#options.store.agents, session), change }
  }

  #entry(event: AuditEvent, origin: Origin, session: Session, token: IssuedToken | null) {
    return sessionEntry(event, origin, session, { ts: this.#options.now(), tokenHash: token?.hash ?? null })
  }
}
