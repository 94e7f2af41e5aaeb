import { setTimeout as delay } from 'node:timers/promises'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import {
  BoxofficeError,
  effectiveMounts,
  effectiveProfile,
  newSessionId,
  type PrincipalLimit,
  type Profile,
  type SandboxOverrides,
  sameMounts,
} from '@boxoffice/protocol'
import type { Authorizer, Decision } from '../access/authorizer.ts'
import type { Principal } from '../access/principals.ts'
import type { Placement } from '../agents/placement.ts'
import type { Origin } from '../domain/audit-entry.ts'
import { dueAt } from '../domain/lifecycle.ts'
import { exists, forbidden, noSession, notTheOwner, starting, stillEnding, superseded } from '../domain/refusals.ts'
import { workspaceIdOf } from '../domain/scope.ts'
import { isLive, isPlaced, type LiveSession, type PlacedSession, type ProvisioningSession } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import { eventsOf } from '../domain/session-event.ts'
import type { CreateOutcome, IdempotencyRecord, Store } from '../store/store.ts'
import type { SessionEffects } from './effects.ts'
import type { Grants } from './grants.ts'
import { findRepeat, keyOfEndedSession, type Repeatable, recordOf } from './idempotency.ts'
import { mismatch, placementMismatches, profileMismatches } from './mismatch.ts'
import type { NegotiateRequest } from './negotiate-request.ts'
import { type Provisioner, provisionError } from './provisioner.ts'
import type { SessionWriter } from './session-writer.ts'

export type AcquisitionOptions = {
  store: Store
  writer: SessionWriter
  effects: SessionEffects
  grants: Grants
  provisioner: Provisioner
  placement: Placement
  authorizer: Authorizer
  profiles: ReadonlyMap<string, Profile>
  maxSessions: number
  limit: PrincipalLimit
  brokerId: string
  now: () => number
}

/** `repeat` is to be recorded with the answer. `isNew`: made by this very request, so that nobody has a token of it. */
export type Resolved = {
  session: PlacedSession
  decision: Decision
  isNew: boolean
  warnings: string[]
  replayed: boolean
  repeat: IdempotencyRecord | null
}

/** A decision, and whose the scope was when it was made. */
type Decided = Decision & { owner: string | null }

type Creation = {
  principal: Principal
  request: NegotiateRequest
  profile: Profile
  decision: Decided
  origin: Origin
  deadline: number
}

/** How often a row that another broker is making is looked at. */
const POLL_MS = [10, 20, 40, 80]

/** Resolves a scope to its session, or makes it; atomic per scope over all brokers of one database [4-15]. */
export class Acquisition {
  readonly #options: AcquisitionOptions
  readonly #creating = new Map<string, Promise<string | undefined>>()

  constructor(options: AcquisitionOptions) {
    this.#options = options
  }

  async resolve(principal: Principal, request: NegotiateRequest, origin: Origin): Promise<Resolved> {
    const { store, grants, placement, now } = this.#options
    const profile = this.#profile(request.profile, request.overrides)
    if (request.provider !== null) await placement.requireKnown(request.provider)
    let decision = await this.#decision(principal, request)
    // Before anything is made for who may not say it.
    if (request.members !== null && decision.access === 'member') throw notTheOwner(request.scope)
    // A key has no meaning for what creates nothing [C-16].
    const repeatable = request.mode === 'get' ? null : request.repeatable
    const recorded = repeatable && (await findRepeat(store, principal, repeatable, now()))
    const replayed = recorded ? await this.#isFinished(recorded) : false
    const deadline = performance.now() + request.wait * 1000
    let made: string | undefined
    let waited = false
    for (;;) {
      const live = await this.#live(principal, request)
      if (live === undefined) {
        if (request.mode === 'get') throw noSession('this scope has no session; call with mode "ensure" to create one')
        if (recorded && repeatable) throw keyOfEndedSession(repeatable.key)
        const chosen = profile ?? this.#profile('default', request.overrides)
        grants.requirePossible(request.wanted, chosen, { principal, decision })
        const created = await this.#createOnce({ principal, request, profile: chosen, decision, origin, deadline })
        waited = true
        // Somebody else was first, perhaps with the scope too.
        if (created === undefined) decision = await this.#decision(principal, request)
        made = created ?? made
        continue
      }
      // Somebody else may have claimed it since; the claim is in the database before the session is [C-02].
      if (decision.access === 'claimable' && live.id !== made) decision = await this.#decision(principal, request)
      if (request.mode === 'create_only' && live.id !== made && !(await this.#isRepeated(principal, repeatable, live))) throw exists(live)
      if (live.state === 'provisioning' && request.mode === 'get') throw starting(live)
      const warnings = profileMismatches(live, profile, request)
      const ready = live.state === 'provisioning' ? await this.#ready(live, deadline) : live
      const session = await this.#withMounts(ready, request, warnings)
      if (session === undefined) continue
      warnings.push(...placementMismatches(session, request))
      const current = waited || session !== live ? await this.#decidedAgain(principal, request) : decision
      const repeat = repeatable && !recorded ? recordOf(principal, repeatable, session.id, now()) : null
      return { session, decision: current, isNew: session.id === made, warnings, replayed, repeat }
    }
  }

  /** The session was released while it starts: nobody waits for the agent any longer. */
  cancel(sessionId: string): void {
    this.#options.provisioner.cancel(sessionId)
  }

  /** After a wait, which may have been long: 401 or 403 when the key or the access of the caller has gone meanwhile. */
  async #decidedAgain(principal: Principal, request: NegotiateRequest): Promise<Decided> {
    await principal.requireValid?.()
    return this.#decision(principal, request)
  }

  /** 403 when the caller may not use the scope. */
  async #decision(principal: Principal, { scope, mode }: NegotiateRequest): Promise<Decided> {
    const { store, authorizer } = this.#options
    const ownership = await store.scopes.ownership(principal.tenant, scope)
    const decision = await authorizer.access(principal, scope, ownership, mode)
    if (decision.access === 'denied') throw forbidden(scope)
    return { ...decision, owner: ownership.owner }
  }

  /** The live session was made under this very key: by an earlier attempt, or by one that runs at the same time [C-14]. */
  async #isRepeated(principal: Principal, repeatable: Repeatable | null, live: LiveSession): Promise<boolean> {
    const { store, now } = this.#options
    return repeatable !== null && (await findRepeat(store, principal, repeatable, now()))?.sessionId === live.id
  }

  #profile(name: string, overrides: SandboxOverrides | null): Profile
  #profile(name: string | null, overrides: SandboxOverrides | null): Profile | null
  #profile(name: string | null, overrides: SandboxOverrides | null): Profile | null {
    if (name === null) return null
    const profile = this.#options.profiles.get(name)
    if (profile === undefined) {
      const names = [...this.#options.profiles.keys()].join(', ')
      throw new BoxofficeError('INVALID_REQUEST', `profile: there is no profile "${name}"; there are: ${names}`)
    }
    return overrides === null ? profile : effectiveProfile(profile, overrides.profile)
  }

  /** Its sandbox is made anew where the request wants other mounts [0-34]; undefined when the session has ended meanwhile. */
  async #withMounts(session: PlacedSession, request: NegotiateRequest, warnings: string[]): Promise<PlacedSession | undefined> {
    const { overrides, mode, onMismatch } = request
    if (overrides === null || !namesMounts(overrides)) return session
    const wanted = effectiveMounts(session.profile, overrides)
    if (sameMounts(wanted, session.mounts)) return session
    if (onMismatch === 'fail') throw mismatch(session, 'mounts_differ', 'other mounts')
    if (mode !== 'get') return this.#options.provisioner.remake(session, wanted)
    warnings.push('mounts_differ')
    return session
  }

  async #live(principal: Principal, request: NegotiateRequest): Promise<LiveSession | undefined> {
    const { store, writer } = this.#options
    const found = await store.sessions.live(principal.tenant, request.scope)
    if (found === undefined || isLive(await writer.current(found))) return found
    return store.sessions.live(principal.tenant, request.scope)
  }

  /** True when the recorded operation has its session; 409 when that session has ended since [C-15]. */
  async #isFinished(record: IdempotencyRecord): Promise<boolean> {
    const session = await this.#options.store.sessions.byId(record.sessionId)
    if (session === undefined || !isLive(session)) throw keyOfEndedSession(record.key)
    return isPlaced(session)
  }

  /** Of the requests of one scope that find no session at once, one makes it; the others look again, and cost no `create`. */
  async #createOnce(creation: Creation): Promise<string | undefined> {
    const { principal, request } = creation
    const scope = JSON.stringify([principal.tenant, request.scope.type, request.scope.id])
    const creating = this.#creating.get(scope)
    if (creating !== undefined) {
      await creating.catch(() => {})
      return undefined
    }
    const work = this.#create(creation).finally(() => this.#creating.delete(scope))
    this.#creating.set(scope, work)
    return work
  }

  /** Inserts the row under the unique index and gives its id; whoever loses the race finds the winner's row in the next round. */
  async #create({ principal, request, profile, decision, origin, deadline }: Creation): Promise<string | undefined> {
    const { store, effects, grants, placement, provisioner, limit, maxSessions, now, brokerId } = this.#options
    const limited = limit.refusal(principal)
    if (limited !== undefined) throw limited
    // Only where the old sandbox holds a workspace that the new one is to get; nobody waits for another one [C-20 d, C-25].
    if (!(await effects.workspaceIsFree(workspaceIdOf(principal.tenant, request.scope), deadline))) throw stillEnding(request.scope)
    const preferred = await store.workspaces.holders(workspaceIdOf(principal.tenant, request.scope))
    const { provider, relay, needsImage = false, reserved } = request
    const wishes = { preferred, provider, relay, needsImage, reserved }
    const { session, created } = await placement.place(wishes, async (agent) => {
      const session = newSession(principal, request, profile, { agentId: agent.id, brokerId, now: now() })
      const options = {
        claimFor: decision.access === 'claimable' ? principal.id : null,
        owner: decision.owner,
        maxLive: maxSessions,
        labelQuota: request.labelQuota ?? null,
        idempotency: request.repeatable && recordOf(principal, request.repeatable, session.id, session.createdAt),
        audit: [sessionEntry('sandbox.session.create', origin, session, { ts: session.createdAt })],
        events: eventsOf(null, session, session.createdAt),
        grant: grants.first(session, { principal, actor: origin.actor ?? principal.id, decision }, request.wanted),
      }
      const created = await provisioner.create(session, () => store.sessions.create(session, options), isCreated)
      return { session, created }
    })
    if (created.outcome === 'quota')
      throw new BoxofficeError('RATE_LIMITED', `the tenant has its ${created.max} live sessions; release some`, {
        retryAfter: 10,
        details: { limit: 'max_sessions', max: created.max },
      })
    return created.outcome === 'created' ? session.id : undefined
  }

  /** Waits until the row is ready: for our own work by its promise, for another broker's by looking at the row [C-17]. */
  async #ready(session: ProvisioningSession, deadline: number): Promise<PlacedSession> {
    const { store, provisioner } = this.#options
    for (let round = 0; ; round++) {
      const left = deadline - performance.now()
      const done = provisioner.done(session.id)
      const poll = () => delay(Math.min(left, POLL_MS[round] ?? 100), undefined)
      const made = left > 0 ? await (done === undefined ? poll() : withTimeout(done, left, () => undefined)) : undefined
      const found = await store.sessions.byId(session.id)
      if (found !== undefined && isPlaced(found)) return found
      if (made === 'superseded' && found?.state !== 'provisioning') throw superseded()
      if (found === undefined) throw noSession('the session was released while it was starting')
      if (found.state === 'failed') throw provisionError(found)
      if (found.state === 'terminated') throw noSession('the session was released while it was starting')
      if (performance.now() >= deadline) throw starting(found)
    }
  }
}

const isCreated = ({ outcome }: CreateOutcome): boolean => outcome === 'created'

const namesMounts = ({ mounts, workspaceHostPath, workspaceMode }: SandboxOverrides): boolean =>
  mounts !== undefined || workspaceHostPath !== undefined || workspaceMode !== undefined

function newSession(
  principal: Principal,
  request: NegotiateRequest,
  profile: Profile,
  { agentId, brokerId, now }: { agentId: string; brokerId: string; now: number },
): ProvisioningSession {
  const session: ProvisioningSession = {
    id: newSessionId(),
    tenant: principal.tenant,
    scope: request.scope,
    profile,
    mounts: effectiveMounts(profile, request.overrides ?? {}),
    labels: request.labels,
    relay: request.relay ?? 'auto',
    providerPreference: request.provider,
    needsImage: request.needsImage ?? false,
    shape: request.shape,
    createdBy: principal.id,
    createdAt: now,
    hardExpiresAt: now + profile.hard_ttl_seconds * 1000,
    leaseExpiresAt: now + profile.lease_seconds * 1000,
    lastActivityAt: now,
    busy: false,
    hasGrants: false,
    dueAt: 0,
    revision: 0,
    state: 'provisioning',
    agentId,
    brokerId,
    fence: 1,
    provisionDeadline: now + profile.provision_timeout_seconds * 1000,
  }
  return { ...session, dueAt: dueAt(session) }
}
