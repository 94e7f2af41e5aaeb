import { type Actor, BoxofficeError } from '@boxoffice/protocol'
import { resolveActor } from '../access/actor.ts'
import { type Access, type AccessMode, type Authorizer, type Decision, mayRelease } from '../access/authorizer.ts'
import type { Principal } from '../access/principals.ts'
import { agentOf } from '../agents/agent-of.ts'
import type { AuditEntry, AuditEvent, Origin } from '../domain/audit-entry.ts'
import type { Capabilities } from '../domain/capabilities.ts'
import { ended, noSession, requirePlaced } from '../domain/refusals.ts'
import { isLive, isPlaced, isSameSandbox, type PlacedSession, type Session, type SuspendMode } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import { heartbeatEvent } from '../domain/session-event.ts'
import type { SessionFilter } from '../store/session-store.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import type { IssuedToken, TokenIssuer } from '../tokens/issuer.ts'
import type { Grants, Issuance } from './grants.ts'
import { type Grant, type Negotiator, tokenFields } from './negotiate.ts'
import type { NegotiateRequest } from './negotiate-request.ts'
import type { SessionWriter } from './session-writer.ts'

export type SessionView = { session: Session; agent: AgentRecord | undefined; token: IssuedToken | null }

/**
 * `actor`: for whom the token is; undefined: as the caller negotiated last. `requested`: what the token that is renewed was asked for with;
 * null: all of the actor's grant.
 */
type RefreshOptions = { actor: Actor | undefined; requested: Capabilities | null; movesLease: boolean }

type Renewal = RefreshOptions & { principal: Principal; decision: Decision; event: AuditEvent; origin: Origin }

export type SessionServiceOptions = {
  store: Store
  writer: SessionWriter
  negotiator: Negotiator
  authorizer: Authorizer
  grants: Grants
  /** Nobody waits any longer for a sandbox that is being made. */
  cancel: (sessionId: string) => void
  /** Suspends the sandbox of a session at its agent. */
  suspendNow: (agent: AgentRecord, session: PlacedSession, mode: SuspendMode) => Promise<void>
  issuer: TokenIssuer
  now: () => number
}

/** How long an expired or failed session is told apart from one that never existed [contract 2.5]. */
export const TOMBSTONE_MS = 24 * 3600 * 1000

/** Renewals that a sandbox made anew may overtake. */
const ROUNDS = 100

/** What clients do with sessions. Every refusal is a `BoxofficeError` with the codes of contract 2.5. */
export class SessionService {
  readonly #options: SessionServiceOptions

  constructor(options: SessionServiceOptions) {
    this.#options = options
  }

  /** The scope's session, made if the mode says so, with a fresh token [4-04, 4-05, 4-72]. */
  negotiate(principal: Principal, request: NegotiateRequest, origin: Origin): Promise<Grant> {
    return this.#options.negotiator.negotiate(principal, request, origin)
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
      requested: null,
      event: 'sandbox.session.read',
      origin,
      movesLease: false,
    })
  }

  /**
   * A new token; the old one stays good until its own end [4-30, 4-32]. An MVP client, which has no heartbeat, says by it that it
   * still needs its session [C-51]: where `movesLease`, and only for sessions that such a client made.
   */
  async refresh(principal: Principal, id: string, { actor, requested, movesLease }: RefreshOptions, origin: Origin): Promise<IssuedToken> {
    const { session, decision } = await this.#load(principal, id)
    const placed = requirePlaced(session)
    const renewed = await this.#renew(placed, {
      principal,
      decision,
      actor,
      requested,
      event: 'sandbox.session.refresh',
      origin,
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

  /**
   * Suspends the sandbox now; a negotiate wakes it. A stop ends what runs; a freeze of a sandbox in use is BINDING_CONFLICT. 501
   * UNSUPPORTED where its provider cannot do it in that way.
   * A session that is suspended already, as deep or deeper, stays as it is: `false`.
   */
  async suspend(principal: Principal, id: string, mode: SuspendMode, origin: Origin): Promise<boolean> {
    const { store, writer, suspendNow, now } = this.#options
    const { session } = await this.#load(principal, id)
    const placed = requirePlaced(session)
    const agent = await agentOf(store.agents, placed)
    if (!agent.provider.suspend.includes(mode))
      throw new BoxofficeError('UNSUPPORTED', `the provider ${placed.provider} of this sandbox cannot ${mode} it`)
    if (placed.state === 'suspended' && (placed.mode === mode || placed.mode === 'stop')) return false
    await suspendNow(agent, placed, mode)
    let changed = false
    const change = await writer.change(
      placed,
      { type: 'suspend_requested', mode },
      {
        stillHolds: async (before) => isSameSandbox(before, placed),
        audit: (after, before) => {
          changed = after !== before
          return changed ? [sessionEntry('sandbox.session.suspend', origin, after, { ts: now() })] : []
        },
      },
    )
    requirePlaced(change.session)
    return changed
  }

  /** What the caller is to a session and may do there, for what is not done by a token. */
  async authorize(principal: Principal, id: string): Promise<{ session: Session; access: Access; capabilities: Capabilities }> {
    const { session, decision } = await this.#load(principal, id)
    const capabilities = isLive(session) ? this.#options.grants.allowed(session, { principal, decision }) : []
    return { session, access: decision.access, capabilities }
  }

  /** The session whose events the caller may follow, by the rules of `read`; its end is told for as long as its tombstone is kept. */
  async follow(principal: Principal, id: string): Promise<Session> {
    return (await this.#load(principal, id, { released: true })).session
  }

  /** Ends the session for everyone on the scope [C-54]; what it made is torn down in the background [C-25]. */
  async release(principal: Principal, id: string, { keepWorkspace }: { keepWorkspace: boolean }, origin: Origin): Promise<void> {
    const { writer, cancel, now } = this.#options
    const { session, decision } = await this.#load(principal, id, { mode: 'release' })
    if (!mayRelease(principal, decision.access))
      throw new BoxofficeError('FORBIDDEN', 'releasing a session takes its owner or a key with the right "release"')
    const change = await writer.change(
      session,
      { type: 'released', keepWorkspace },
      { audit: (after) => [sessionEntry('sandbox.session.release', origin, after, { ts: now() })] },
    )
    if (change.refused !== undefined) throw noSession('the session has been released')
    cancel(id)
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
  async #renew(session: PlacedSession, { principal, decision, actor: claimed, requested, event, origin, movesLease }: Renewal) {
    const { grants, store, issuer, now } = this.#options
    const actor = claimed?.id ?? (await grants.actorOf(session, principal))
    // Who acts for somebody else needs the right to it each time.
    resolveActor(principal, claimed ?? { type: principal.actorType, id: actor })
    const issuance = await grants.renew(session, { principal, actor, decision }, requested)
    let placed = session
    for (let round = 0; round < ROUNDS; round++) {
      const token = issuer.session(placed, actor, issuance.capabilities, issuance.notBefore)
      const entry = (after: Session) => sessionEntry(event, { ...origin, actor }, after, { ts: now(), ...tokenFields(token) })
      const saved = movesLease ? await this.#moveLease(placed, issuance, entry) : await this.#record(placed, issuance, entry)
      if (isPlaced(saved) && !isSameSandbox(saved, placed)) {
        // Made anew meanwhile: the token would not be for it.
        placed = saved
        continue
      }
      grants.tell(session, issuance)
      return { session: saved, agent: await agentOf(store.agents, session), token }
    }
    throw new Error(`the sandbox of session ${session.id} was made anew ${ROUNDS} times while its token was renewed`)
  }

  /** Moves the lease, with the audit entry of the token; gives the session as it is then. */
  async #moveLease(session: PlacedSession, { record }: Issuance, entry: (after: Session) => AuditEntry): Promise<Session> {
    const change = await this.#options.writer.change(
      session,
      { type: 'heartbeat' },
      {
        refusable: true,
        stillHolds: async (before) => isSameSandbox(before, session),
        grant: record,
        audit: (after) => [entry(after)],
      },
    )
    return change.session
  }

  /** Writes the audit entry of a token that changes nothing about its session. */
  async #record(session: PlacedSession, { record }: Issuance, entry: (session: Session) => AuditEntry): Promise<Session> {
    const { store } = this.#options
    await (record === null ? store.audit.append([entry(session)]) : store.grants.put([record], [entry(session)]))
    return session
  }
}
