import { setTimeout as delay } from 'node:timers/promises'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import type { PrincipalLimit } from '@boxoffice/node-http'
import { BoxofficeError, newSessionId, type Profile } from '@boxoffice/protocol'
import type { Decision } from '../access/authorizer.ts'
import type { Principal } from '../access/principals.ts'
import { demandOf } from '../agents/load.ts'
import type { Placement } from '../agents/placement.ts'
import type { Origin } from '../domain/audit-entry.ts'
import { dueAt } from '../domain/lifecycle.ts'
import { noSession, starting, stillEnding, superseded } from '../domain/refusals.ts'
import { effectiveMounts } from '../domain/sandbox-overrides.ts'
import { workspaceIdOf } from '../domain/scope.ts'
import { isPlaced, type ProvisioningSession } from '../domain/session.ts'
import { sessionEntry } from '../domain/session-entry.ts'
import { eventsOf } from '../domain/session-event.ts'
import type { CreateOutcome } from '../store/session-store.ts'
import type { Store } from '../store/store.ts'
import type { SessionEffects } from './effects.ts'
import type { Grants } from './grants.ts'
import { recordOf } from './idempotency.ts'
import type { NegotiateRequest } from './negotiate-request.ts'
import { type Provisioner, provisionError } from './provisioner.ts'

export type SessionMakerOptions = {
  store: Store
  effects: SessionEffects
  grants: Grants
  provisioner: Provisioner
  placement: Placement
  /** Live sessions that a tenant may have. */
  maxSessions: number
  /** How fast a principal and its tenant may make new ones. */
  limit: PrincipalLimit
  brokerId: string
  now: () => number
}

/** A decision, and whose the scope was when it was made. */
export type OwnedDecision = Decision & { owner: string | null }

export type Creation = {
  principal: Principal
  request: NegotiateRequest
  profile: Profile
  decision: OwnedDecision
  /** For whom the first token is. */
  actor: string
  origin: Origin
  /** In ms of the monotonic clock. */
  deadline: number
}

/** How often a row that another broker is making is looked at. */
const POLL_MS = [10, 20, 40, 80]

/** Makes the session of a scope that has none: its row, whose sandbox the provisioner then makes. */
export class SessionMaker {
  readonly #options: SessionMakerOptions
  readonly #creating = new Map<string, Promise<ProvisioningSession | undefined>>()

  constructor(options: SessionMakerOptions) {
    this.#options = options
  }

  /**
   * The new session; undefined when somebody else was first. Of the requests of one scope that find no session at once, one makes it;
   * the others look again, and cost no `create`.
   */
  async make(creation: Creation): Promise<ProvisioningSession | undefined> {
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

  /**
   * Resolves when the sandbox is there: for our own work by its promise, for another broker's by looking at the row [C-17]. 423 when it
   * is not by `deadline` (ms of the monotonic clock); else why there will be none.
   */
  async ready(session: ProvisioningSession, deadline: number): Promise<void> {
    const { store, provisioner } = this.#options
    for (let round = 0; ; round++) {
      const remainingMs = deadline - performance.now()
      const done = provisioner.done(session.id)
      const poll = () => delay(Math.min(remainingMs, POLL_MS[round] ?? 100), undefined)
      const provisioned =
        remainingMs > 0 ? await (done === undefined ? poll() : withTimeout(done, remainingMs, () => undefined)) : undefined
      const found = await store.sessions.byId(session.id)
      if (found !== undefined && isPlaced(found)) return
      if (provisioned === 'superseded' && found?.state !== 'provisioning') throw superseded()
      if (found === undefined) throw noSession('the session was released while it was starting')
      if (found.state === 'failed') throw provisionError(found)
      if (found.state === 'terminated') throw noSession('the session was released while it was starting')
      if (performance.now() >= deadline) throw starting(found)
    }
  }

  /** Inserts the row under the unique index; whoever loses the race finds the winner's row in the next round. */
  async #create({ principal, request, profile, decision, actor, origin, deadline }: Creation): Promise<ProvisioningSession | undefined> {
    const { store, effects, grants, placement, provisioner, limit, maxSessions, now, brokerId } = this.#options
    const limited = limit.refusal(principal)
    if (limited !== undefined) throw limited
    // Only where the old sandbox holds a workspace that the new one is to get; nobody waits for another one [C-20 d, C-25].
    if (!(await effects.workspaceIsFree(workspaceIdOf(principal.tenant, request.scope), deadline))) throw stillEnding(request.scope)
    const preferred = await store.workspaces.holders(workspaceIdOf(principal.tenant, request.scope))
    const { provider, relay, needsImage = false, reserved } = request
    const needsEgress = profile.network === 'proxy'
    const preferences = { preferred, provider, relay, needsImage, needsEgress, reserved, demand: demandOf(profile) }
    const { session, created } = await placement.place(preferences, async (agent) => {
      const session = newSession(principal, request, profile, { agentId: agent.id, brokerId, now: now() })
      const terms = {
        claimFor: decision.access === 'claimable' ? principal.id : null,
        owner: decision.owner,
        maxLive: maxSessions,
        labelQuota: request.labelQuota ?? null,
      }
      const written = {
        idempotency: request.repeatable && recordOf(principal, request.repeatable, session.id, session.createdAt),
        audit: [sessionEntry('sandbox.session.create', origin, session, { ts: session.createdAt })],
        events: eventsOf(null, session, session.createdAt),
        grant: grants.first(session, { principal, actor, decision }, request.requested),
      }
      const created = await provisioner.create(session, () => store.sessions.create(session, terms, written), isCreated)
      return { session, created }
    })
    if (created.outcome === 'quota')
      throw new BoxofficeError('RATE_LIMITED', `the tenant has its ${created.max} live sessions; release some`, {
        retryAfter: 10,
        details: { limit: 'max_sessions', max: created.max },
      })
    return created.outcome === 'created' ? session : undefined
  }
}

const isCreated = ({ outcome }: CreateOutcome): boolean => outcome === 'created'

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
    egress: null,
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
