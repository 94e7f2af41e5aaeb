import type { EgressPolicy, MountSet, Network, Profile, RelayPreference, Scope } from '@boxoffice/protocol'

/** Why a session ended. `released` was asked for (404 afterwards), the others are news (410) [contract 2.5]. */
export type EndReason = 'released' | 'hard_ttl' | 'lease' | 'idle'
export type SuspendMode = 'freeze' | 'stop'

/** What every session has, whatever its state. Times are the broker's clock in milliseconds [C-77]. */
export type SessionBase = {
  id: string
  tenant: string
  scope: Scope
  /** The profile as it was when the session was made; later changes of the configuration do not move its limits. */
  profile: Profile
  /** What its sandbox sees of the host. */
  mounts: MountSet
  /** Set by a client in the place of the profile's; `policy` is null once it was taken back. */
  egress: SessionPolicy | null
  labels: Readonly<Record<string, string>>
  relay: RelayPreference
  /** The only provider that may make its sandbox; null: any. */
  providerPreference: string | null
  /** The client has named the image of its profile: an agent without images may not make its sandbox. */
  needsImage: boolean
  /** Shape of the request that made it: MVP refreshes move the lease of MVP sessions only [C-51, C-52]. */
  shape: 'mvp' | 'full'
  createdBy: string
  createdAt: number
  hardExpiresAt: number
  leaseExpiresAt: number
  /** Last dataplane activity, negotiate or heartbeat that the broker knows of. */
  lastActivityAt: number
  /** Something runs in it or is attached to it, so idle and lease wait [C-51]. */
  busy: boolean
  /** Actors have grants of their own in it; else each has everything that policy allows. */
  hasGrants: boolean
  /** Raised when another broker takes over the making of the sandbox, so that the first cannot activate the row any more [C-24]. */
  fence: number
  /** When the reaper next looks at it. Never later than the first timer that could fire, often earlier. */
  dueAt: number
  /** Compare-and-swap counter of the row; the store raises it with each save. */
  revision: number
}

/** `revision`: of the session, with the change that set it. Agents tell by it which of two orders is the later one. */
export type SessionPolicy = { policy: EgressPolicy | null; revision: number }

/** Where a session's sandbox is. `network`: the one that it has; null where its agent did not say. */
export type Placed = {
  agentId: string
  sandboxId: string
  provider: string
  isolation: string
  network: Network | null
  incarnation: number
  activatedAt: number
}

export type ProvisioningSession = SessionBase & {
  state: 'provisioning'
  agentId: string
  /** The broker that is making the sandbox. */
  brokerId: string
  provisionDeadline: number
}
export type ActiveSession = SessionBase & Placed & { state: 'active' }
export type IdleSession = SessionBase & Placed & { state: 'idle' }
export type SuspendedSession = SessionBase & Placed & { state: 'suspended'; mode: SuspendMode; suspendedAt: number }
/** `keepWorkspace`: what ends the sandbox, however late, keeps its workspace for the scope [C-55]. */
export type Ended = { endedAt: number; placed: Placed | null; agentId: string; keepWorkspace: boolean }
export type TerminatedSession = SessionBase & Ended & { state: 'terminated'; reason: EndReason }
/** `reasonDetails`: what the refusal that it failed by carried beside its message. */
export type FailedSession = SessionBase & Ended & { state: 'failed'; reason: string; reasonDetails: ReasonDetails | null }
export type ReasonDetails = Readonly<Record<string, unknown>>

export type PlacedSession = ActiveSession | IdleSession | SuspendedSession
export type LiveSession = ProvisioningSession | PlacedSession
export type EndedSession = TerminatedSession | FailedSession
export type Session = LiveSession | EndedSession

export const isLive = (session: Session): session is LiveSession => session.state !== 'terminated' && session.state !== 'failed'
export const isPlaced = (session: Session): session is PlacedSession =>
  session.state === 'active' || session.state === 'idle' || session.state === 'suspended'

/** Where the programs of a session may connect to; null where neither it nor its profile says. */
export const egressOf = ({ egress, profile }: Pick<SessionBase, 'egress' | 'profile'>): EgressPolicy | null =>
  egress?.policy ?? profile.egress

/** Whether a token for `placed` is one for the session as it is now: it is live, and its sandbox was not made anew. */
export const isSameSandbox = (session: Session, placed: PlacedSession): session is PlacedSession =>
  isPlaced(session) && session.sandboxId === placed.sandboxId && session.incarnation === placed.incarnation

/** Where its sandbox is, or was when it ended; null: it never had one. */
export function placedOf(session: Session): Placed | null {
  if (isPlaced(session)) return session
  return isLive(session) ? null : session.placed
}
