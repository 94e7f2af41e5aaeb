import type { SessionEvent, Step } from '../../src/domain/lifecycle.ts'
import { isLive, isPlaced, type Session } from '../../src/domain/session.ts'

/** What happened at one step of a session's life. */
export type Happened = { before: Session; event: SessionEvent; now: number; step: Step }

const seconds = (session: Session) => session.profile.lease_seconds * 1000
const kinds = ({ step }: Happened): string[] => step.effects.map(({ type }) => type)

/** Where the lease may be after a step, by the table of contract 2.10: moved by negotiate and heartbeat, begun with the sandbox, else as it was. */
const lease = ({ before, event, now, step }: Happened): number => {
  if (step.refused !== undefined || !isLive(before)) return before.leaseExpiresAt
  if (event.type === 'created') return now + seconds(before)
  const moves = (event.type === 'touched' || event.type === 'heartbeat') && isPlaced(before)
  return moves ? Math.max(before.leaseExpiresAt, now + seconds(before)) : before.leaseExpiresAt
}

/** True of every step of every session, whatever came before [4-90 to 4-95, C-23 to C-25, C-51 to C-53]. */
export const LAWS: Record<string, (happened: Happened) => boolean> = {
  'what a session is does not change': ({ before, step: { session } }) =>
    (['id', 'tenant', 'scope', 'profile', 'shape', 'createdAt', 'hardExpiresAt'] as const).every((key) => session[key] === before[key]),
  'an ended session stays ended': ({ before, step }) => isLive(before) || !isLive(step.session),
  'a released session stays released': ({ before, step: { session } }) =>
    !(before.state === 'terminated' && before.reason === 'released') || session === before,
  'a refusal changes nothing and asks nothing of the agent': ({ before, step }) =>
    step.refused === undefined || (step.session === before && step.effects.length === 0),
  'the lease moves only as the table says': (happened) => happened.step.session.leaseExpiresAt === lease(happened),
  'no tick leaves a session alive past its hard TTL': ({ before, event, now, step }) =>
    event.type !== 'tick' || now < before.hardExpiresAt || !isLive(step.session),
  'before the hard TTL nothing ends by it': ({ before, now, step: { session } }) =>
    !(isLive(before) && session.state === 'terminated' && session.reason === 'hard_ttl') || now >= before.hardExpiresAt,
  'work holds off everything but the hard TTL': ({ before, event, now, step }) =>
    event.type !== 'tick' || !isPlaced(before) || !before.busy || now >= before.hardExpiresAt || step.session.state === before.state,
  'what ends with a sandbox destroys it': (happened) =>
    !isLive(happened.before) || isLive(happened.step.session) || kinds(happened).includes('destroy'),
  'what ends while tokens are about revokes them': (happened) =>
    !isPlaced(happened.before) || isLive(happened.step.session) || kinds(happened).includes('revoke'),
  'a live session is never destroyed or revoked': (happened) =>
    !isLive(happened.step.session) || !kinds(happened).some((kind) => kind === 'destroy' || kind === 'revoke'),
  'only what becomes suspended is suspended, and so it is by the agent': (happened) => {
    const { before, step } = happened
    const modeOf = (session: Session) => (session.state === 'suspended' ? session.mode : null)
    const asked = step.effects.find((effect) => effect.type === 'suspend')?.mode ?? null
    return modeOf(step.session) === modeOf(before) ? asked === null : asked === modeOf(step.session)
  },
  'a client that comes wakes it; a report of use finds it awake': (happened) => {
    const { before, event, step } = happened
    if (before.state !== 'suspended' || step.session.state !== 'active') return !kinds(happened).includes('resume')
    return event.type === 'touched' ? kinds(happened).includes('resume') : event.type === 'activity' && kinds(happened).length === 0
  },
  'a heartbeat wakes nothing': ({ before, event, step }) =>
    !(event.type === 'heartbeat' && before.state === 'suspended') || step.session.state === 'suspended',
  'use is never forgotten': ({ before, step: { session } }) => session.lastActivityAt >= before.lastActivityAt,
  'nothing is used in the future': ({ before, now, step: { session } }) => session.lastActivityAt <= Math.max(now, before.lastActivityAt),
  'a fencing number only grows, with each take-over': ({ before, event, step }) =>
    step.session.fence === before.fence + (event.type === 'taken_over' && step.refused === undefined ? 1 : 0),
  'a stale broker changes nothing': ({ before, event, step }) =>
    !('fence' in event) || event.fence === before.fence || step.refused !== undefined,
  'the sandbox of a session is one and the same': ({ before, step: { session } }) =>
    !isPlaced(before) ||
    (isPlaced(session) ? session.sandboxId === before.sandboxId : !isLive(session) && session.placed?.sandboxId === before.sandboxId),
}
