import { expect } from 'vitest'
import { type SessionEvent, transition } from '../../src/domain/lifecycle.ts'
import { isLive, isPlaced, type Session } from '../../src/domain/session.ts'
import { TOMBSTONE_MS } from '../../src/sessions/service.ts'
import { LEASE_SECONDS, type World } from './world.ts'

export type Known = { scope: number; session: Session }

/** What the contract wants of the sessions of one run, by the pure lifecycle alone: nothing here asks a broker, but for the first look. */
export class Expected {
  readonly known: Known[] = []
  /** The agent takes its time to make sandboxes. */
  held = false
  readonly #run: number
  readonly #now: () => number
  readonly #seen: (session: Session) => void

  constructor(run: number, now: () => number, seen: (session: Session) => void) {
    this.#run = run
    this.#now = now
    this.#seen = seen
  }

  threadOf(scope: number): string {
    return `run-${this.#run}-${scope}`
  }

  byId(id: string): Known | undefined {
    return this.known.find(({ session }) => session.id === id)
  }

  apply(known: Known, event: SessionEvent): void {
    known.session = transition(known.session, event, this.#now()).session
  }

  live(): Known[] {
    return this.known.filter(({ session }) => isLive(session))
  }

  /** The live session of a scope, as a request finds it: the hard TTL holds to the second [4-92]. */
  liveOf(scope: number): Known | undefined {
    const found = this.known.find((known) => known.scope === scope && isLive(known.session))
    if (found !== undefined) this.#enforceHardTtl(found)
    return found !== undefined && isLive(found.session) ? found : undefined
  }

  /** What a request for this session by its id meets (contract 2.5). */
  meets(known: Known): 'gone' | 'expired' | 'failed' | 'starting' | 'placed' {
    this.#enforceHardTtl(known)
    const { session } = known
    if (session.state === 'provisioning') return 'starting'
    if (isLive(session)) return 'placed'
    if (this.#now() >= session.endedAt + TOMBSTONE_MS) return 'gone'
    if (session.state === 'failed') return 'failed'
    return session.reason === 'released' ? 'gone' : 'expired'
  }

  /** A session that an answer names for the first time; what it is at its beginning is in the contract. */
  async learn(world: World, id: string, scope: number, shape: 'mvp' | 'full'): Promise<Known> {
    const session = (await world.store.sessions.byId(id)) ?? expect.fail(`${id} is not in the database`)
    const now = this.#now()
    expect(session).toMatchObject({ scope: { type: 'thread', id: this.threadOf(scope) }, shape, createdAt: now, busy: false })
    expect(session.hardExpiresAt).toBe(now + session.profile.hard_ttl_seconds * 1000)
    expect(session.leaseExpiresAt).toBe(now + LEASE_SECONDS * 1000)
    const known = { scope, session }
    this.known.push(known)
    return known
  }

  /** The brokers' rows are what the lifecycle says, to the millisecond. */
  async requireSame(world: World): Promise<void> {
    for (const { session } of this.known) {
      this.#seen(session)
      const row = await world.store.sessions.byId(session.id)
      if (row === undefined) expect(!isLive(session) && this.#now() >= session.endedAt + TOMBSTONE_MS, `${session.id} is gone`).toBe(true)
      else expect(visible(row)).toEqual(visible(session))
    }
  }

  #enforceHardTtl(known: Known): void {
    if (isLive(known.session) && this.#now() >= known.session.hardExpiresAt) this.apply(known, { type: 'tick', suspend: [] })
  }
}

/** Who makes a sandbox may change while it is made; all else is visible to somebody. */
const visible = (session: Session) => {
  const { id, state, leaseExpiresAt, hardExpiresAt, lastActivityAt, busy } = session
  return {
    id,
    state,
    leaseExpiresAt,
    hardExpiresAt,
    lastActivityAt,
    busy,
    sandboxId: isPlaced(session) ? session.sandboxId : isLive(session) ? null : (session.placed?.sandboxId ?? null),
    mode: session.state === 'suspended' ? session.mode : null,
    suspendedAt: session.state === 'suspended' ? session.suspendedAt : null,
    reason: isLive(session) ? null : session.reason,
    endedAt: isLive(session) ? null : session.endedAt,
  }
}
