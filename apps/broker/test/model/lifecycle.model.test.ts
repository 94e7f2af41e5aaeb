import { MountSet, Profile } from '@boxoffice/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { dueAt, type SessionEvent, transition } from '../../src/domain/lifecycle.ts'
import { isLive, type ProvisioningSession, type Session, type SuspendMode } from '../../src/domain/session.ts'
import { LAWS } from './lifecycle-laws.ts'

/** One step of a life: time passes, then something happens. */
type Moment = { pass: number; event: SessionEvent }
type Life = { profile: Profile; suspend: readonly SuspendMode[]; moments: Moment[] }

/** Short, so that a life of a few minutes meets every timer, in any order. */
const timer = fc.integer({ min: 1, max: 60 })
const profiles = fc
  .record({
    idle_after_seconds: timer,
    idle_timeout_seconds: timer,
    stop_after_seconds: timer,
    lease_seconds: timer,
    hard_ttl_seconds: fc.integer({ min: 60, max: 300 }),
    provision_timeout_seconds: timer,
    on_lease_expiry: fc.constantFrom('suspend' as const, 'terminate' as const),
  })
  .map((fields): Profile => ({ ...Profile.parse({ name: 'p' }), ...fields }))

const fence = fc.constantFrom(1, 1, 1, 2, 3)
const placed = { agentId: 'agt_1', sandboxId: 'sb_1', provider: 'fake', isolation: 'none', network: null, incarnation: 1 }
const events: fc.Arbitrary<SessionEvent> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('created' as const), fence, placed: fc.constant(placed) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('create_failed' as const), fence, reason: fc.constant('no image') }) },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant('taken_over' as const), fence, brokerId: fc.constant('b2'), agentId: fc.constant('agt_2') }),
  },
  { weight: 6, arbitrary: fc.constant({ type: 'touched' as const }) },
  { weight: 4, arbitrary: fc.constant({ type: 'heartbeat' as const }) },
  { weight: 8, arbitrary: fc.record({ type: fc.constant('activity' as const), at: fc.integer({ min: -90, max: 0 }), busy: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ type: 'suspend_refused' as const }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('released' as const), keepWorkspace: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ type: 'sandbox_lost' as const, reason: 'oom' }) },
)
const lives: fc.Arbitrary<Life> = fc.record({
  profile: profiles,
  suspend: fc.subarray(['freeze', 'stop'] as SuspendMode[]),
  moments: fc.array(fc.record({ pass: fc.integer({ min: 0, max: 40 }), event: events }), { minLength: 1, maxLength: 40 }),
})

const born = (profile: Profile, now: number): ProvisioningSession => {
  const session: ProvisioningSession = {
    id: 'ssn_1',
    tenant: 't',
    scope: { type: 'thread', id: 'x' },
    profile,
    labels: {},
    relay: 'auto',
    shape: 'mvp',
    createdBy: 'p',
    createdAt: now,
    hardExpiresAt: now + profile.hard_ttl_seconds * 1000,
    leaseExpiresAt: now + profile.lease_seconds * 1000,
    providerPreference: null,
    needsImage: false,
    egress: null,
    mounts: MountSet.parse({}),
    hasGrants: false,
    lastActivityAt: now,
    busy: false,
    dueAt: 0,
    revision: 0,
    fence: 1,
    state: 'provisioning',
    agentId: 'agt_1',
    brokerId: 'b1',
    provisionDeadline: now + profile.provision_timeout_seconds * 1000,
  }
  return { ...session, dueAt: dueAt(session) }
}

/** `at` of an activity is relative in the generated life, as an agent reports it. */
const atTime = (event: SessionEvent, now: number): SessionEvent =>
  event.type === 'activity' ? { ...event, at: now + event.at * 1000 } : event

const START = 1_000_000

/** Follows a life second by second; `reaps` says when the reaper looks. */
const follow = (life: Life, reaps: (session: Session, now: number) => boolean, seen: (session: Session, now: number) => void): void => {
  let session: Session = born(life.profile, START)
  let now = START
  const happens = (event: SessionEvent): void => {
    const before = session
    const step = transition(before, event, now)
    for (const [law, holds] of Object.entries(LAWS))
      if (!holds({ before, event, now, step })) throw new Error(`broken: ${law} (${event.type})`)
    session = step.session
  }
  for (const { pass, event } of life.moments) {
    for (let second = 0; second < pass; second++) {
      now += 1000
      if (reaps(session, now)) happens({ type: 'tick', suspend: life.suspend })
      seen(session, now)
    }
    happens(atTime(event, now))
    seen(session, now)
  }
}

const RUNS = { numRuns: 5_000 }

test('[4-90 to 4-95] the laws of a session hold at every step of thousands of lives', { timeout: 300_000 }, () => {
  const met = new Set<string>()
  fc.assert(
    fc.property(lives, (life) =>
      follow(
        life,
        () => true,
        (session) => met.add(isLive(session) ? session.state : session.reason),
      ),
    ),
    RUNS,
  )
  // A generator that reaches too little proves too little.
  const all = [
    'provisioning',
    'active',
    'idle',
    'suspended',
    'released',
    'hard_ttl',
    'lease',
    'idle',
    'oom',
    'no image',
    'provision_timeout',
  ]
  expect([...met]).toEqual(expect.arrayContaining(all))
})

// Thousands of lives, each lived twice: minutes where others use the cores.
test('a reaper that looks only when something is due sees to it that everything happens when it would under one that looks each second', {
  timeout: 300_000,
}, () => {
  const visible = ({ dueAt: _, ...session }: Session) => JSON.stringify(session)
  fc.assert(
    fc.property(lives, (life) => {
      const eager: string[] = []
      const lazy: string[] = []
      follow(
        life,
        () => true,
        (session) => eager.push(visible(session)),
      )
      follow(
        life,
        (session, now) => isLive(session) && session.dueAt <= now,
        (session) => lazy.push(visible(session)),
      )
      expect(lazy).toEqual(eager)
    }),
    RUNS,
  )
})
