import { BoxofficeError, type MountSet, type Profile, type RelayPreference, sameMounts } from '@boxoffice/protocol'
import { resolveActor } from '../access/actor.ts'
import type { Authorizer } from '../access/authorizer.ts'
import type { Principal } from '../access/principals.ts'
import { agentOf } from '../agents/agent-of.ts'
import { requireMode } from '../agents/dataplane-mode.ts'
import type { Placement } from '../agents/placement.ts'
import type { Origin } from '../domain/audit-entry.ts'
import { exists, forbidden, noSession, notTheOwner, starting } from '../domain/refusals.ts'
import { effectiveMounts, effectiveProfile, type SandboxOverrides } from '../domain/sandbox-overrides.ts'
import { isLive, isPlaced, isSameSandbox, type LiveSession, type PlacedSession } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import type { IdempotencyRecord, Ownership } from '../store/session-store.ts'
import type { AgentRecord, Store } from '../store/store.ts'
import type { IssuedToken, TokenIssuer } from '../tokens/issuer.ts'
import type { Grants, Issuance } from './grants.ts'
import { findRepeat, keyOfEndedSession, recordOf } from './idempotency.ts'
import type { Members } from './members.ts'
import { mismatch, placementMismatches, profileMismatches } from './mismatch.ts'
import type { NegotiateRequest } from './negotiate-request.ts'
import type { Provisioner } from './provisioner.ts'
import type { OwnedDecision, SessionMaker } from './session-maker.ts'
import type { SessionWriter } from './session-writer.ts'

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

export type NegotiatorOptions = {
  store: Store
  writer: SessionWriter
  maker: SessionMaker
  provisioner: Provisioner
  placement: Placement
  authorizer: Authorizer
  grants: Grants
  members: Members
  issuer: TokenIssuer
  profiles: ReadonlyMap<string, Profile>
  now: () => number
}

/** One request on its way through the steps. */
type Negotiation = {
  principal: Principal
  request: NegotiateRequest
  origin: Origin
  /** For whom the token is. */
  actor: string
  /** As the request names it; null: it names none. */
  profile: Profile | null
  /** Until when the request waits for a sandbox that starts, in ms of the monotonic clock. */
  deadline: number
  /** What its idempotency key has stood for since before this request; undefined until it was looked up. */
  recorded?: IdempotencyRecord | null
  replayed: boolean
  /** The id of the session that this request has made: nobody else has a token of it. */
  made?: string
  /** This request has had the sandbox made anew with its mounts. */
  isNewIncarnation: boolean
}

type Found = { session: PlacedSession; access: OwnedDecision; warnings: string[] }

/** For how long a session that was read before access was decided counts as read just now, in milliseconds. */
const FRESH_MS = 100

/** Each round that does not end means that somebody else's change of the scope or of its session got through. */
const ROUNDS = 100

/**
 * Answers `POST /v1/sandbox/sessions` [4-04, 4-05, 4-72]: who may use the scope gets its session, made if the mode says so, and a token;
 * atomic per scope over all brokers of one database [4-15].
 */
export class Negotiator {
  readonly #options: NegotiatorOptions

  constructor(options: NegotiatorOptions) {
    this.#options = options
  }

  /** Authorize, find or make, grant, sign, save. A round that had to wait, or was overtaken, is followed by another one. */
  async negotiate(principal: Principal, request: NegotiateRequest, origin: Origin): Promise<Grant> {
    const negotiation = await this.#begin(principal, request, origin)
    for (let round = 0; round < ROUNDS; round++) {
      // The key may have been revoked while the last round waited.
      if (round > 0) await principal.requireValid?.()
      const seenAt = performance.now()
      const seen = await this.#options.store.ofScope(principal.tenant, request.scope)
      const access = await this.#authorize(negotiation, seen.ownership)
      // Whoever decides may be far away.
      const live = performance.now() - seenAt < FRESH_MS ? seen.live : undefined
      const found = await this.#findOrMake(negotiation, access, live)
      if (found === undefined) continue
      const issuance = await this.#grant(negotiation, found)
      // Before the save, whose audit entry has the token's hash [C-72]; nobody gets a token whose save was refused.
      const token = this.#sign(found.session, issuance)
      const session = await this.#save(negotiation, found.session, issuance, token)
      if (session === undefined) continue
      this.#options.grants.tell(session, issuance)
      const warnings = [...found.warnings, ...request.requested.unknown.map((name) => `unknown_capability:${name}`)]
      const agent = live?.agentId === session.agentId && seen.agent ? seen.agent : await agentOf(this.#options.store.agents, session)
      return { session, agent, token, relay: request.relay, warnings, replayed: negotiation.replayed }
    }
    throw new Error(`the scope ${request.scope.type} ${request.scope.id} changed ${ROUNDS} times while it was negotiated`)
  }

  async #begin(principal: Principal, request: NegotiateRequest, origin: Origin): Promise<Negotiation> {
    const actor = resolveActor(principal, request.actor).id
    const profile = request.profile === null ? null : this.#profile(request.profile, request.overrides)
    if (request.provider !== null) await this.#options.placement.requireKnown(request.provider)
    const deadline = performance.now() + request.wait * 1000
    return { principal, request, origin: { ...origin, actor }, actor, profile, deadline, replayed: false, isNewIncarnation: false }
  }

  /** 403 when the caller may not use the scope, or may not say who else may. */
  async #authorize({ principal, request: { scope, mode, members } }: Negotiation, ownership: Ownership): Promise<OwnedDecision> {
    const { authorizer } = this.#options
    const decision = await authorizer.access(principal, scope, ownership, mode)
    if (decision.access === 'denied') throw forbidden(scope)
    if (members !== null && decision.access === 'member') throw notTheOwner(scope)
    return { ...decision, owner: ownership.owner }
  }

  /**
   * The scope's live session as the request wants it; undefined when it had to be waited for, so that access is to be decided again.
   * `seen`: the one that there was a moment ago.
   */
  async #findOrMake(negotiation: Negotiation, access: OwnedDecision, seen: LiveSession | undefined): Promise<Found | undefined> {
    const { maker, store } = this.#options
    const { principal, request, profile, deadline } = negotiation
    await this.#findRecorded(negotiation)
    const live = await this.#live(negotiation, seen)
    if (live === undefined) return this.#make(negotiation, access)
    const isMade = live.id === negotiation.made
    // Somebody else may have claimed it since; the claim is in the database before the session is [C-02].
    const isClaimed = access.access === 'claimable' && !isMade
    const current = isClaimed ? await this.#authorize(negotiation, await store.scopes.ownership(principal.tenant, request.scope)) : access
    if (request.mode === 'create_only' && !isMade && !(await this.#isRepeated(negotiation, live))) throw exists(live)
    const warnings = profileMismatches(live, profile, request)
    if (live.state === 'provisioning') {
      if (request.mode === 'get') throw starting(live)
      await maker.ready(live, deadline)
      return undefined
    }
    const mounts = negotiation.isNewIncarnation ? undefined : otherMounts(live, request)
    if (mounts !== undefined) {
      if (request.onMismatch === 'fail') throw mismatch(live, 'mounts_differ', 'other mounts')
      if (request.mode !== 'get') return this.#remake(negotiation, live, mounts)
      warnings.push('mounts_differ')
    }
    warnings.push(...placementMismatches(live, request))
    return { session: live, access: current, warnings }
  }

  async #make(negotiation: Negotiation, access: OwnedDecision): Promise<undefined> {
    const { grants, maker } = this.#options
    const { principal, request, actor, origin, deadline, recorded, made } = negotiation
    if (request.mode === 'get') throw noSession('this scope has no session; call with mode "ensure" to create one')
    if (request.repeatable && (recorded || made !== undefined)) throw keyOfEndedSession(request.repeatable.key)
    const profile = negotiation.profile ?? this.#profile('default', request.overrides)
    grants.requirePossible(request.requested, profile, { principal, decision: access })
    const session = await maker.make({ principal, request, profile, decision: access, actor, origin, deadline })
    // Somebody else was first, perhaps with the scope too.
    if (session === undefined) return undefined
    negotiation.made = session.id
    await maker.ready(session, deadline)
    return undefined
  }

  /** Has the sandbox made anew with the mounts that the request wants [0-34]. */
  async #remake(negotiation: Negotiation, session: PlacedSession, mounts: MountSet): Promise<undefined> {
    const next = await this.#options.provisioner.remake(session, mounts)
    // Two requests that want different mounts do not take turns: each has its way once.
    negotiation.isNewIncarnation = next !== undefined
    return undefined
  }

  async #grant({ principal, request, origin, actor, made }: Negotiation, { session, access }: Found): Promise<Issuance> {
    const { store, grants, members } = this.#options
    if (request.members !== null) await members.set(principal, session, request.members, origin)
    if (request.relay !== null) requireMode(request.relay, await agentOf(store.agents, session))
    return grants.negotiate(session, { principal, actor, decision: access }, request.requested, session.id === made)
  }

  #sign(session: PlacedSession, { actor, capabilities, notBefore }: Issuance): IssuedToken {
    return this.#options.issuer.session(session, actor, capabilities, notBefore)
  }

  /**
   * Saves the use of the session with the audit entry of its token. Undefined when the session has ended meanwhile, or its sandbox was
   * made anew, so that the token would not be for it.
   */
  async #save(
    { principal, request: { mode, repeatable }, origin, recorded }: Negotiation,
    session: PlacedSession,
    issuance: Issuance,
    token: IssuedToken,
  ): Promise<PlacedSession | undefined> {
    const { writer, now } = this.#options
    const isFirst = mode !== 'get' && repeatable !== null && !recorded
    const change = await writer.change(
      session,
      { type: 'touched' },
      {
        refusable: true,
        stillHolds: async (before) => isSameSandbox(before, session),
        idempotency: isFirst ? recordOf(principal, repeatable, session.id, now()) : null,
        grant: issuance.record,
        audit: (after) => [sessionEntry('sandbox.session.acquire', origin, after, { ts: now(), ...tokenFields(token) })],
      },
    )
    return change.refused === undefined && isSameSandbox(change.session, session) ? change.session : undefined
  }

  /** 409 when the key came with another body, or the session that it stands for has ended since [C-13, C-15]. */
  async #findRecorded(negotiation: Negotiation): Promise<void> {
    const { store, now } = this.#options
    const { principal, request } = negotiation
    if (negotiation.recorded !== undefined) return
    // A key has no meaning for what creates nothing [C-16].
    const record =
      request.mode === 'get' || request.repeatable === null ? null : await findRepeat(store, principal, request.repeatable, now())
    negotiation.recorded = record ?? null
    if (!record) return
    const session = await store.sessions.byId(record.sessionId)
    if (session === undefined || !isLive(session)) throw keyOfEndedSession(record.key)
    negotiation.replayed = isPlaced(session)
  }

  /** The live session was made under this very key: by an earlier attempt, or by one that runs at the same time [C-14]. */
  async #isRepeated({ principal, request: { repeatable } }: Negotiation, live: LiveSession): Promise<boolean> {
    const { store, now } = this.#options
    return repeatable !== null && (await findRepeat(store, principal, repeatable, now()))?.sessionId === live.id
  }

  /** Where none was seen one may have been made since, under the request's own key. */
  async #live({ principal: { tenant }, request: { scope } }: Negotiation, seen: LiveSession | undefined): Promise<LiveSession | undefined> {
    const { store, writer } = this.#options
    const found = seen ?? (await store.sessions.live(tenant, scope))
    if (found === undefined || isLive(await writer.current(found))) return found
    return store.sessions.live(tenant, scope)
  }

  #profile(name: string, overrides: SandboxOverrides | null): Profile {
    const profile = this.#options.profiles.get(name)
    if (profile === undefined) {
      const names = [...this.#options.profiles.keys()].join(', ')
      throw new BoxofficeError('INVALID_REQUEST', `profile: there is no profile "${name}"; there are: ${names}`)
    }
    return overrides === null ? profile : effectiveProfile(profile, overrides.profile)
  }
}

/** What the audit log keeps of a token. */
export const tokenFields = ({ hash, jti }: IssuedToken) => ({ tokenHash: hash, data: { jti } })

/** The mounts that the request names, where the session has others; undefined: as it is, or not said. */
function otherMounts(session: PlacedSession, { overrides }: NegotiateRequest): MountSet | undefined {
  if (overrides === null) return undefined
  const { mounts, workspaceHostPath, workspaceMode } = overrides
  if (mounts === undefined && workspaceHostPath === undefined && workspaceMode === undefined) return undefined
  const wanted = effectiveMounts(session.profile, overrides)
  return sameMounts(wanted, session.mounts) ? undefined : wanted
}
