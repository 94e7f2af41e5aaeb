import {
  type EndedSession,
  type EndReason,
  type FailedSession,
  type LiveSession,
  type Placed,
  placedOf,
  type ReasonDetails,
  type Session,
  type TerminatedSession,
} from './session.ts'

const placementOf = (session: Session): Placed | null => {
  const placed = placedOf(session)
  if (placed === null) return null
  const { agentId, sandboxId, provider, isolation, network, incarnation, activatedAt } = placed
  return { agentId, sandboxId, provider, isolation, network, incarnation, activatedAt }
}

/** What an ended session keeps of its life. */
const baseOf = (session: Session) => {
  const { id, tenant, scope, profile, labels, relay, shape, createdBy, createdAt, hardExpiresAt, leaseExpiresAt, revision, agentId } =
    session
  const { providerPreference, needsImage, mounts, egress, lastActivityAt, dueAt, fence, hasGrants } = session
  return {
    id,
    tenant,
    scope,
    profile,
    labels,
    relay,
    shape,
    createdBy,
    createdAt,
    hardExpiresAt,
    leaseExpiresAt,
    revision,
    agentId,
    providerPreference,
    needsImage,
    mounts,
    egress,
    lastActivityAt,
    dueAt,
    fence,
    hasGrants,
    busy: false,
    placed: placementOf(session),
  }
}

/** Ends a live session for a reason of its policy, or of its users. */
export const terminate = (session: LiveSession, reason: EndReason, now: number, keepWorkspace = false): TerminatedSession => ({
  ...baseOf(session),
  state: 'terminated',
  reason,
  endedAt: now,
  keepWorkspace,
})

/** An ended session as one that was released: from now on it reads like any other such one. */
export const acknowledge = (session: EndedSession, keepWorkspace: boolean, now: number): TerminatedSession => ({
  ...baseOf(session),
  state: 'terminated',
  reason: 'released',
  endedAt: now,
  keepWorkspace,
})

/** Ends a live session whose sandbox could not be made, or is lost. */
export const fail = (session: LiveSession, reason: string, now: number, details: ReasonDetails | null = null): FailedSession => ({
  ...baseOf(session),
  state: 'failed',
  reason,
  reasonDetails: details,
  endedAt: now,
  keepWorkspace: false,
})
