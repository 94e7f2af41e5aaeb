import type { EgressPolicy, MountSet } from '@boxoffice/protocol'
import { acknowledge, fail, terminate } from './ended-session.ts'
import type {
  ActiveSession,
  EndedSession,
  IdleSession,
  LiveSession,
  Placed,
  PlacedSession,
  ProvisioningSession,
  ReasonDetails,
  Session,
  SuspendedSession,
  SuspendMode,
} from './session.ts'

/**
 * The life of a session [4-90], without clock or I/O:
 *
 *   provisioning ─created─▶ active ─tick─▶ idle ─tick─▶ suspended(freeze) ─tick─▶ suspended(stop)
 *        │                    ▲──touched, activity──┴──touched, activity──────────────┘
 *        │                    └─released, tick (hard TTL, lease)─▶ terminated
 *        └─create_failed, tick (deadline)─▶ failed ◀─sandbox_lost─ any placed state
 */
export type SessionEvent =
  /** The agent has the sandbox. `fence` is the number that the creating broker holds. */
  | { type: 'created'; fence: number; placed: Omit<Placed, 'activatedAt'> }
  | { type: 'create_failed'; fence: number; reason: string; details?: ReasonDetails | undefined }
  /** The creating broker is gone; another goes on, maybe at another agent [C-24, 4-94]. */
  | { type: 'taken_over'; fence: number; brokerId: string; agentId: string }
  /** Negotiate by a client. */
  | { type: 'touched' }
  /** A client still needs the session: moves the lease, wakes nothing [4-84]. */
  | { type: 'heartbeat' }
  /** An agent's report: when the dataplane was last used, and whether work runs or is attached. */
  | { type: 'activity'; at: number; busy: boolean }
  /** The agent has made the sandbox anew under its id, with other mounts [0-34]. */
  | { type: 'new_incarnation'; incarnation: number; mounts: MountSet }
  /** A client says where its programs may connect to; null: as the profile has it. */
  | { type: 'egress_set'; policy: EgressPolicy | null }
  /** A timer may have passed. `suspend` is what the sandbox's provider can do. */
  | { type: 'tick'; suspend: readonly SuspendMode[] }
  /** Its agent has suspended it because a client asked for that. */
  | { type: 'suspend_requested'; mode: SuspendMode }
  /** The agent says that its provider cannot suspend after all. */
  | { type: 'suspend_refused' }
  | { type: 'released'; keepWorkspace?: boolean }
  /** `gone`: nothing is left of it, and its agent has stopped [2-27]. */
  | { type: 'sandbox_lost'; reason: string; gone?: boolean }

export type SessionEffect =
  | { type: 'suspend'; mode: SuspendMode }
  | { type: 'resume' }
  /** The agent hears once more where programs may connect to. */
  | { type: 'tell_egress' }
  /** Ends the sandbox, whether or not its id is known yet. */
  | { type: 'destroy' }
  /** Agents refuse the session's tokens from now on [C-30]. */
  | { type: 'revoke' }

/** `refused` says why an event is illegal in this state; the session is then unchanged. */
export type Step = { session: Session; effects: readonly SessionEffect[]; refused?: string }

export function transition(session: Session, event: SessionEvent, now: number): Step {
  switch (session.state) {
    case 'provisioning':
      return whenProvisioning(session, event, now)
    case 'active':
    case 'idle':
      return whenRunning(session, event, now)
    case 'suspended':
      return whenSuspended(session, event, now)
    case 'terminated':
    case 'failed':
      return whenEnded(session, event, now)
  }
}

function whenProvisioning(session: ProvisioningSession, event: SessionEvent, now: number): Step {
  switch (event.type) {
    case 'created':
      if (event.fence !== session.fence) return refuse(session, 'another broker has taken over')
      return step(activate(session, { ...event.placed, activatedAt: now }, now))
    case 'create_failed':
      if (event.fence !== session.fence) return refuse(session, 'another broker has taken over')
      return step(fail(session, event.reason, now, event.details), destroy)
    case 'taken_over':
      if (event.fence !== session.fence) return refuse(session, 'another broker has taken over')
      return step({ ...session, brokerId: event.brokerId, agentId: event.agentId, fence: session.fence + 1 })
    case 'tick':
      if (now >= session.hardExpiresAt) return step(terminate(session, 'hard_ttl', now), revoke, destroy)
      return now < session.provisionDeadline ? step(session) : step(fail(session, 'provision_timeout', now), destroy)
    case 'released':
      return step(terminate(session, 'released', now, event.keepWorkspace), revoke, destroy)
    case 'touched':
    case 'heartbeat':
      return step(session) // its lease begins when it becomes active
    case 'suspend_requested':
    case 'egress_set':
      return refuse(session, 'the sandbox is starting')
    case 'activity':
    case 'suspend_refused':
    case 'sandbox_lost':
    case 'new_incarnation':
      return step(session) // the creating broker decides by the response it gets
  }
}

function whenRunning(session: ActiveSession | IdleSession, event: SessionEvent, now: number): Step {
  switch (event.type) {
    case 'touched':
    case 'heartbeat':
      return step(touch(session, now))
    case 'suspend_requested':
      return suspendOnRequest(session, event.mode, now)
    case 'egress_set':
      return step(withEgress(session, event.policy))
    case 'suspend_refused':
      return step(session) // woken in the meantime
    case 'activity':
      return step(withActivity(session, event.at, event.busy, now))
    case 'new_incarnation':
      return step(remake(session, event, now))
    case 'tick':
      return tickRunning(session, event.suspend, now)
    case 'released':
      return step(terminate(session, 'released', now, event.keepWorkspace), revoke, destroy)
    case 'sandbox_lost':
      return step(fail(session, event.reason, now), ...(event.gone ? [] : [revoke, destroy]))
    case 'created':
    case 'create_failed':
    case 'taken_over':
      return refuse(session, 'the sandbox has been made already')
  }
}

function whenSuspended(session: SuspendedSession, event: SessionEvent, now: number): Step {
  switch (event.type) {
    case 'touched':
      return step(touch(wake(session, now), now), { type: 'resume' })
    case 'heartbeat':
      return step(rearm({ ...session, leaseExpiresAt: leaseFrom(session, now) }))
    case 'suspend_requested':
      if (event.mode === session.mode || session.mode === 'stop') return step(session)
      return suspendOnRequest({ ...session, state: 'active' }, event.mode, now)
    case 'egress_set':
      return step(withEgress(session, event.policy))
    case 'suspend_refused':
      return step(terminate(session, 'idle', now), revoke, destroy)
    case 'activity':
      // The agent wakes by itself on dataplane requests; a report from before the suspension does not count.
      return event.busy || event.at > session.suspendedAt
        ? step(withActivity(wake(session, now), event.at, event.busy, now))
        : step(session)
    case 'new_incarnation':
      return step(remake(wake(session, now), event, now))
    case 'tick':
      return tickSuspended(session, event.suspend, now)
    case 'released':
      return step(terminate(session, 'released', now, event.keepWorkspace), revoke, destroy)
    case 'sandbox_lost':
      return step(fail(session, event.reason, now), ...(event.gone ? [] : [revoke, destroy]))
    case 'created':
    case 'create_failed':
    case 'taken_over':
      return refuse(session, 'the sandbox has been made already')
  }
}

function whenEnded(session: EndedSession, event: SessionEvent, now: number): Step {
  switch (event.type) {
    case 'released':
      // Acknowledges an expiry or a failure: from now on it reads like any released session [contract 2.5].
      if (session.state === 'terminated' && session.reason === 'released') return refuse(session, 'the session is released')
      return step(acknowledge(session, event.keepWorkspace ?? false, now), destroy)
    case 'tick':
    case 'activity':
    case 'suspend_refused':
    case 'sandbox_lost':
      return step(session)
    case 'created':
    case 'create_failed':
    case 'taken_over':
    case 'touched':
    case 'heartbeat':
    case 'suspend_requested':
    case 'egress_set':
    case 'new_incarnation':
      return refuse(session, 'the session has ended')
  }
}

/** The store raises the revision with the change. */
const withEgress = <T extends PlacedSession>(session: T, policy: EgressPolicy | null): T => ({
  ...session,
  egress: { policy, revision: session.revision + 1 },
})

/** The agent has done it: that it is told again mends what came in between. */
const suspendOnRequest = (session: ActiveSession | IdleSession, mode: SuspendMode, now: number): Step =>
  step(suspended(session, mode, now + REPORTED_WITHIN_MS), { type: 'suspend', mode })

function tickRunning(session: ActiveSession | IdleSession, suspend: readonly SuspendMode[], now: number): Step {
  if (now >= session.hardExpiresAt) return step(terminate(session, 'hard_ttl', now), revoke, destroy)
  if (session.busy) return step(rearm(session))
  if (now >= endedByLeaseAt(session)) return step(terminate(session, 'lease', now), revoke, destroy)
  if (now >= suspendAt(session)) {
    const mode = suspend.includes('freeze') ? 'freeze' : suspend[0]
    return mode === undefined
      ? step(terminate(session, 'idle', now), revoke, destroy)
      : step(suspended(session, mode, now), { type: 'suspend', mode })
  }
  if (now >= idleAt(session) && session.state === 'active') return step(rearm({ ...session, state: 'idle' }))
  return step(rearm(session))
}

function tickSuspended(session: SuspendedSession, suspend: readonly SuspendMode[], now: number): Step {
  if (now >= session.hardExpiresAt) return step(terminate(session, 'hard_ttl', now), revoke, destroy)
  if (now >= endedByLeaseAt(session)) return step(terminate(session, 'lease', now), revoke, destroy)
  if (session.mode === 'freeze' && now >= session.suspendedAt + ms(session.profile.stop_after_seconds)) {
    // A provider that cannot stop keeps it frozen, until hard TTL or lease end it.
    if (!suspend.includes('stop')) return step({ ...session, dueAt: Math.min(session.hardExpiresAt, endedByLeaseAt(session)) })
    return step(suspended({ ...session, state: 'active' }, 'stop', now), { type: 'suspend', mode: 'stop' })
  }
  return step(rearm(session))
}

const destroy: SessionEffect = { type: 'destroy' }
const revoke: SessionEffect = { type: 'revoke' }
const step = (session: Session, ...effects: SessionEffect[]): Step => ({ session, effects })
const refuse = (session: Session, refused: string): Step => ({ session, effects: [], refused })
/** A report of an agent that is on its way tells of a sandbox as it was before its suspension. */
const REPORTED_WITHIN_MS = 1000
const ms = (seconds: number): number => seconds * 1000

/** Without dataplane activity for so long a session reads `idle`, for information only [C-53]. */
const idleAt = ({ lastActivityAt, profile }: PlacedSession): number => lastActivityAt + ms(profile.idle_after_seconds)

const leaseFrom = (session: PlacedSession, now: number): number => Math.max(session.leaseExpiresAt, now + ms(session.profile.lease_seconds))

/** The lease is acted on when neither it nor the activity of the last `lease_seconds` holds it [C-51]. */
const leaseDecisionAt = (session: PlacedSession): number =>
  Math.max(session.leaseExpiresAt, session.lastActivityAt + ms(session.profile.lease_seconds))

/** Where policy suspends, an expired lease does nothing to what is suspended already. */
const endedByLeaseAt = (session: PlacedSession): number =>
  session.profile.on_lease_expiry === 'terminate' ? leaseDecisionAt(session) : Number.POSITIVE_INFINITY

const suspendAt = (session: PlacedSession): number => {
  const idle = session.lastActivityAt + ms(session.profile.idle_timeout_seconds)
  return session.profile.on_lease_expiry === 'suspend' ? Math.min(idle, leaseDecisionAt(session)) : idle
}

/** The first moment at which `tick` could change this session. */
export function dueAt(session: LiveSession): number {
  const { hardExpiresAt, profile } = session
  switch (session.state) {
    case 'provisioning':
      return Math.min(hardExpiresAt, session.provisionDeadline)
    case 'active':
    case 'idle': {
      if (session.busy) return hardExpiresAt
      const idle = session.state === 'active' ? idleAt(session) : Number.POSITIVE_INFINITY
      return Math.min(hardExpiresAt, idle, suspendAt(session), leaseDecisionAt(session))
    }
    case 'suspended': {
      const stop = session.mode === 'freeze' ? session.suspendedAt + ms(profile.stop_after_seconds) : Number.POSITIVE_INFINITY
      return Math.min(hardExpiresAt, stop, endedByLeaseAt(session))
    }
  }
}

const rearm = <T extends LiveSession>(session: T): T => ({ ...session, dueAt: dueAt(session) })

function activate({ brokerId: _, provisionDeadline: __, ...base }: ProvisioningSession, placed: Placed, now: number): ActiveSession {
  return rearm({ ...base, ...placed, state: 'active', lastActivityAt: now, leaseExpiresAt: now + ms(base.profile.lease_seconds) })
}

function wake({ mode: _, suspendedAt: __, ...base }: SuspendedSession, now: number): ActiveSession {
  return rearm({ ...base, state: 'active', lastActivityAt: now })
}

const suspended = (session: ActiveSession | IdleSession, mode: SuspendMode, now: number): SuspendedSession =>
  rearm({ ...session, state: 'suspended', mode, suspendedAt: now, busy: false })

/** What ran has ended with the earlier making of the sandbox. */
const remake = (
  session: ActiveSession | IdleSession,
  { incarnation, mounts }: { incarnation: number; mounts: MountSet },
  now: number,
): ActiveSession => rearm({ ...session, state: 'active', incarnation, mounts, busy: false, lastActivityAt: now })

/** Timers only move away, so `dueAt` stays where it is: the reaper looks once too early, and the row's index is left alone. */
function touch(session: ActiveSession | IdleSession, now: number): ActiveSession {
  const leaseExpiresAt = leaseFrom(session, now)
  const touched: ActiveSession = { ...session, state: 'active', leaseExpiresAt, lastActivityAt: Math.max(session.lastActivityAt, now) }
  return session.state === 'active' ? touched : rearm(touched)
}

function withActivity(session: ActiveSession | IdleSession, at: number, busy: boolean, now: number): ActiveSession | IdleSession {
  // What ran until now counts as used until now.
  const lastActivityAt = Math.max(session.lastActivityAt, busy || session.busy ? now : Math.min(at, now))
  const state = idleAt({ ...session, lastActivityAt }) > now ? 'active' : session.state
  const next = { ...session, state, busy, lastActivityAt }
  return state === session.state && busy === session.busy ? next : rearm(next)
}
