import { EgressPolicy, MountSet, Profile, SESSION_STATES, type SessionState } from '@boxoffice/protocol'
import { describe, expect, test } from 'vitest'
import { dueAt, type SessionEvent, transition } from '../../src/domain/lifecycle.ts'
import { isLive, type LiveSession, type Session, type SessionBase } from '../../src/domain/session.ts'

/** A time in the life of every session below: 100 s after it was made. */
const NOW = 1_000_000
const MADE = NOW - 100_000

const profile = Profile.parse({
  name: 'p',
  idle_timeout_seconds: 900,
  stop_after_seconds: 3600,
  hard_ttl_seconds: 28_800,
  lease_seconds: 900,
})
const base: SessionBase = {
  id: 'ssn_1',
  tenant: 't',
  profile,
  labels: {},
  createdBy: 'p',
  createdAt: MADE,
  dueAt: 0,
  revision: 3,
  fence: 2,
  busy: false,
  hardExpiresAt: MADE + 28_800_000,
  leaseExpiresAt: MADE + 900_000,
  lastActivityAt: MADE,
  scope: { type: 'thread', id: 'x' },
  relay: 'auto',
  providerPreference: null,
  needsImage: false,
  egress: null,
  mounts: MountSet.parse({}),
  shape: 'mvp',
  hasGrants: false,
}
const placed = {
  agentId: 'agt_1',
  sandboxId: 'sb_1',
  provider: 'local',
  isolation: 'none',
  network: null,
  incarnation: 1,
  activatedAt: MADE,
}
const { activatedAt: _, ...justPlaced } = placed

/** One session of each state. */
const sessions: { [State in SessionState]: Extract<Session, { state: State }> } = {
  provisioning: { ...base, state: 'provisioning', agentId: 'agt_1', brokerId: 'b1', provisionDeadline: MADE + 120_000 },
  active: { ...base, ...placed, state: 'active' },
  idle: { ...base, ...placed, state: 'idle' },
  suspended: { ...base, ...placed, state: 'suspended', mode: 'freeze', suspendedAt: MADE + 50_000 },
  terminated: {
    ...base,
    state: 'terminated',
    agentId: 'agt_1',
    placed,
    endedAt: MADE + 60_000,
    keepWorkspace: false,
    reason: 'hard_ttl',
  },
  failed: {
    ...base,
    state: 'failed',
    agentId: 'agt_1',
    placed,
    endedAt: MADE + 60_000,
    keepWorkspace: false,
    reason: 'oom',
    reasonDetails: null,
  },
}

const events: { [Type in SessionEvent['type']]: Extract<SessionEvent, { type: Type }> } = {
  created: { type: 'created', fence: 2, placed: justPlaced },
  create_failed: { type: 'create_failed', fence: 2, reason: 'no image' },
  taken_over: { type: 'taken_over', fence: 2, brokerId: 'b2', agentId: 'agt_1' },
  touched: { type: 'touched' },
  heartbeat: { type: 'heartbeat' },
  activity: { type: 'activity', at: NOW - 1000, busy: false },
  tick: { type: 'tick', suspend: ['freeze', 'stop'] },
  suspend_requested: { type: 'suspend_requested', mode: 'freeze' },
  egress_set: { type: 'egress_set', policy: EgressPolicy.parse({ allow: ['a.example'] }) },
  suspend_refused: { type: 'suspend_refused' },
  released: { type: 'released' },
  sandbox_lost: { type: 'sandbox_lost', reason: 'oom' },
  new_incarnation: { type: 'new_incarnation', incarnation: 2, mounts: MountSet.parse({}) },
}

/** The state afterwards, with the effects in order; `refused`: illegal, nothing changes. */
type Cell = SessionState | `${SessionState} +${string}` | 'refused'

/** [4-90] Full by its type: a new state or event does not compile until each of its cells is filled. */
const table: Record<SessionState, Record<SessionEvent['type'], Cell>> = {
  provisioning: {
    created: 'active',
    create_failed: 'failed +destroy',
    taken_over: 'provisioning',
    touched: 'provisioning',
    heartbeat: 'provisioning',
    activity: 'provisioning',
    tick: 'provisioning',
    suspend_requested: 'refused',
    egress_set: 'refused',
    suspend_refused: 'provisioning',
    released: 'terminated +revoke destroy',
    sandbox_lost: 'provisioning',
    new_incarnation: 'provisioning',
  },
  active: {
    created: 'refused',
    create_failed: 'refused',
    taken_over: 'refused',
    touched: 'active',
    heartbeat: 'active',
    activity: 'active',
    tick: 'idle',
    suspend_requested: 'suspended +suspend',
    egress_set: 'active',
    suspend_refused: 'active',
    released: 'terminated +revoke destroy',
    sandbox_lost: 'failed +revoke destroy',
    new_incarnation: 'active',
  },
  idle: {
    created: 'refused',
    create_failed: 'refused',
    taken_over: 'refused',
    touched: 'active',
    heartbeat: 'active',
    activity: 'active',
    tick: 'idle',
    suspend_requested: 'suspended +suspend',
    egress_set: 'idle',
    suspend_refused: 'idle',
    released: 'terminated +revoke destroy',
    sandbox_lost: 'failed +revoke destroy',
    new_incarnation: 'active',
  },
  suspended: {
    created: 'refused',
    create_failed: 'refused',
    taken_over: 'refused',
    touched: 'active +resume',
    heartbeat: 'suspended',
    activity: 'active',
    tick: 'suspended',
    suspend_requested: 'suspended',
    egress_set: 'suspended',
    suspend_refused: 'terminated +revoke destroy',
    released: 'terminated +revoke destroy',
    sandbox_lost: 'failed +revoke destroy',
    new_incarnation: 'active',
  },
  terminated: {
    created: 'refused',
    create_failed: 'refused',
    taken_over: 'refused',
    touched: 'refused',
    heartbeat: 'refused',
    activity: 'terminated',
    tick: 'terminated',
    suspend_requested: 'refused',
    egress_set: 'refused',
    suspend_refused: 'terminated',
    released: 'terminated +destroy',
    sandbox_lost: 'terminated',
    new_incarnation: 'refused',
  },
  failed: {
    created: 'refused',
    create_failed: 'refused',
    taken_over: 'refused',
    touched: 'refused',
    heartbeat: 'refused',
    activity: 'failed',
    tick: 'failed',
    suspend_requested: 'refused',
    egress_set: 'refused',
    suspend_refused: 'failed',
    released: 'terminated +destroy',
    sandbox_lost: 'failed',
    new_incarnation: 'refused',
  },
}

describe.each(SESSION_STATES)('[4-90] a session that is %s', (state) => {
  test.each(Object.keys(events) as SessionEvent['type'][])('on %s', (type) => {
    const session = sessions[state]
    const result = transition(session, events[type], NOW)
    if (table[state][type] === 'refused') {
      expect(result).toEqual({ session, effects: [], refused: expect.any(String) })
      return
    }
    const effects = result.effects.map((effect) => effect.type).join(' ')
    expect(result.refused).toBeUndefined()
    expect(`${result.session.state}${effects === '' ? '' : ` +${effects}`}`).toBe(table[state][type])
    expect(result.session.id).toBe(session.id)
  })
})

const after = (session: Session, event: SessionEvent, now: number) => transition(session, event, now)
const tick = events.tick

test('[C-24] a broker with a stale fencing number can neither activate nor fail a session', () => {
  expect(after(sessions.provisioning, { ...events.created, fence: 1 }, NOW).refused).toMatch(/taken over/)
  expect(after(sessions.provisioning, { ...events.create_failed, fence: 1 }, NOW).refused).toMatch(/taken over/)
  expect(after(sessions.provisioning, { ...events.taken_over, fence: 1 }, NOW).refused).toMatch(/taken over/)
  expect(after(sessions.provisioning, events.taken_over, NOW).session).toMatchObject({ fence: 3, brokerId: 'b2' })
})

test('[4-90] provisioning past its deadline fails and is cleaned up', () => {
  const { session, effects } = after(sessions.provisioning, tick, MADE + 120_000)
  expect(session).toMatchObject({ state: 'failed', reason: 'provision_timeout' })
  expect(effects).toEqual([{ type: 'destroy' }])
})

test('[C-53] idle_after_seconds of the profile without activity: it reads idle; activity makes it active again', () => {
  const session = { ...sessions.active, profile: { ...profile, idle_after_seconds: 5 } }
  expect(after(session, tick, MADE + 4999).session.state).toBe('active')
  const idle = after(session, tick, MADE + 5000)
  expect(idle).toMatchObject({ session: { state: 'idle' }, effects: [] })
  expect(after(idle.session, { type: 'activity', at: MADE + 5500, busy: false }, MADE + 6000).session.state).toBe('active')
})

test('[4-92] idle for the timeout: suspended by freeze, then by stop', () => {
  const frozen = after(sessions.idle, tick, MADE + 900_000)
  expect(frozen).toMatchObject({ session: { state: 'suspended', mode: 'freeze' }, effects: [{ type: 'suspend', mode: 'freeze' }] })
  const stopped = after(frozen.session, tick, MADE + 900_000 + 3_600_000)
  expect(stopped).toMatchObject({ session: { state: 'suspended', mode: 'stop' }, effects: [{ type: 'suspend', mode: 'stop' }] })
})

test('[4-92] a provider that cannot suspend: the idle session is terminated; one that only stops: stopped at once', () => {
  expect(after(sessions.idle, { type: 'tick', suspend: [] }, MADE + 900_000).session).toMatchObject({ state: 'terminated', reason: 'idle' })
  expect(after(sessions.idle, { type: 'tick', suspend: ['stop'] }, MADE + 900_000).session).toMatchObject({
    state: 'suspended',
    mode: 'stop',
  })
})

test('[4-92, C-51] the hard TTL ends whatever runs; work holds off idle and lease only', () => {
  const busy = { ...sessions.active, busy: true }
  expect(after(busy, tick, MADE + 2_000_000).session.state).toBe('active')
  expect(after(busy, tick, MADE + 28_800_000).session).toMatchObject({ state: 'terminated', reason: 'hard_ttl' })
  expect(after(sessions.suspended, tick, MADE + 28_800_000).session).toMatchObject({ state: 'terminated', reason: 'hard_ttl' })
})

test('[4-91, C-51] a lease that passes is acted on by its policy, unless there was activity in the last lease_seconds', () => {
  const short = { ...profile, lease_seconds: 2, on_lease_expiry: 'terminate' as const }
  const leased = { ...sessions.active, profile: short, leaseExpiresAt: MADE + 2000 }
  expect(after(leased, tick, MADE + 2000).session).toMatchObject({ state: 'terminated', reason: 'lease' })
  expect(after({ ...leased, lastActivityAt: MADE + 1500 }, tick, MADE + 2000).session.state).toBe('active')
  const suspends = { ...leased, profile: { ...short, on_lease_expiry: 'suspend' as const } }
  expect(after(suspends, tick, MADE + 2000).session).toMatchObject({ state: 'suspended', mode: 'freeze' })
})

test('[C-53] activity from before the suspension does not wake; later activity does', () => {
  const { suspended } = sessions
  expect(after(suspended, { type: 'activity', at: suspended.suspendedAt - 1, busy: false }, NOW).session).toBe(suspended)
  expect(after(suspended, { type: 'activity', at: suspended.suspendedAt + 1, busy: false }, NOW).session.state).toBe('active')
})

test('[C-51] what was busy until now counts as used until now', () => {
  const busy = { ...sessions.active, busy: true }
  const quiet = after(busy, { type: 'activity', at: MADE, busy: false }, NOW).session
  expect(quiet).toMatchObject({ busy: false, lastActivityAt: NOW, dueAt: NOW + 60_000 })
})

test.each(['touched', 'heartbeat'] as const)('%s moves the lease of a running session and leaves dueAt alone', (type) => {
  const { session } = after(sessions.active, { type }, NOW)
  expect(session).toMatchObject({ leaseExpiresAt: NOW + 900_000, lastActivityAt: NOW, dueAt: sessions.active.dueAt })
})

test('[4-84, C-53] a heartbeat moves the lease of a suspended session and does not wake it', () => {
  const { session, effects } = after(sessions.suspended, { type: 'heartbeat' }, NOW)
  expect(session).toMatchObject({ state: 'suspended', leaseExpiresAt: NOW + 900_000, lastActivityAt: sessions.suspended.lastActivityAt })
  expect(effects).toEqual([])
})

test('dueAt is the first moment at which a tick changes something', () => {
  for (const session of Object.values(sessions).filter(isLive) as LiveSession[]) {
    const due = dueAt(session)
    expect(after({ ...session, dueAt: due } as Session, tick, due - 1).session).toEqual({ ...session, dueAt: due })
    expect(after(session, tick, due).session.state === session.state && session.state !== 'suspended').toBe(false)
  }
})
