import { expect } from 'vitest'
import { isLive } from '../../src/domain/session.ts'
import type { Expected, Known } from './expected.ts'
import { type Answer, PROFILES, type World } from './world.ts'

/** Who asks: one of the clients, at one of the brokers. */
export type Who = { broker: number; client: number }
export type Mode = 'get' | 'ensure' | 'attach_only' | 'create_only'
export type Negotiate = Who & { scope: number; mode: Mode; shape: 'mvp' | 'full'; profile: number }
export type ById = Who & { does: 'read' | 'refresh' | 'refresh-token' | 'heartbeat' | 'release'; pick: number }

const modes: Record<Mode, { creates: boolean; finds: boolean }> = {
  get: { creates: false, finds: true },
  attach_only: { creates: false, finds: true },
  ensure: { creates: true, finds: true },
  create_only: { creates: true, finds: false },
}

export const negotiate = (
  world: World,
  expected: Expected,
  { broker, client, scope, mode, shape, profile }: Negotiate,
): Promise<Answer> => {
  const thread = expected.threadOf(scope)
  const named = shape === 'mvp' ? { thread_id: thread } : { scope: { type: 'thread', id: thread } }
  return world.negotiate(broker, client, { ...named, mode, profile: PROFILES[profile] })
}

/** One negotiation, alone: its answer, and what it does to the session, follow from what was there. */
export const negotiateAlone = async (world: World, expected: Expected, request: Negotiate): Promise<void> => {
  const { scope, mode, shape } = request
  const live = expected.liveOf(scope)
  const answer = await negotiate(world, expected, request)
  const said = () => `${JSON.stringify(request)}: ${JSON.stringify(answer.body.error)}`
  if (live === undefined) {
    if (!modes[mode].creates) return void expect(answer.status, said()).toBe(404)
    expect(answer.status, said()).toBe(expected.held ? 423 : 200)
    const id = expected.held ? idOfStarting(answer) : String(answer.body.session_id)
    expect(expected.byId(id), 'an id that was used before').toBeUndefined()
    await expected.learn(world, id, scope, shape)
    return
  }
  if (!modes[mode].finds) return void expect(answer.status, said()).toBe(409)
  if (live.session.state === 'provisioning') return void expect(answer.status, said()).toBe(423)
  expect(answer.status, said()).toBe(200)
  expect(answer.body.session_id).toBe(live.session.id)
  expected.apply(live, { type: 'touched' })
}

const idOfStarting = ({ body }: Answer): string => (body as { error: { details: { session_id: string } } }).error.details.session_id

export const byId = (world: World, { session }: Known, { broker, client, does }: ById): Promise<Answer> => {
  if (does === 'read') return world.session(broker, client, 'GET', session.id)
  if (does === 'release') return world.session(broker, client, 'DELETE', session.id)
  return world.session(broker, client, 'POST', session.id, `/${does}`)
}

/** The status matrix [C-11]. */
const STATUS: Record<ReturnType<Expected['meets']>, Record<'read' | 'use' | 'release', number>> = {
  gone: { read: 404, use: 404, release: 404 },
  expired: { read: 410, use: 410, release: 204 },
  failed: { read: 200, use: 410, release: 204 },
  starting: { read: 200, use: 423, release: 204 },
  placed: { read: 200, use: 200, release: 204 },
}

export const byIdAlone = async (world: World, expected: Expected, known: Known, request: ById): Promise<void> => {
  const { does } = request
  const met = expected.meets(known)
  const answer = await byId(world, known, request)
  const kind = does === 'read' || does === 'release' ? does : 'use'
  expect(answer.status, `${does} of a session that is ${met}: ${JSON.stringify(answer.body.error)}`).toBe(STATUS[met][kind])
  if (answer.status >= 400) return
  if (does === 'read') expect((answer.body as { binding: { state: string } }).binding.state).toBe(known.session.state)
  if (does === 'release') expected.apply(known, { type: 'released' })
  if (does === 'heartbeat' || (does === 'refresh' && known.session.shape === 'mvp')) expected.apply(known, { type: 'heartbeat' })
}

/**
 * Several at once on one scope: who comes first is open, what must be true in any order is not. Afterwards the model takes over
 * what the database says, once it has seen that each session could have become that.
 */
export const together = async (
  world: World,
  expected: Expected,
  { scope, requests, reaps }: { scope: number; requests: (Negotiate | ById)[]; reaps: number[] },
): Promise<void> => {
  const before = expected.liveOf(scope)
  const ended = new Set(expected.known.filter(({ session }) => !isLive(session)).map(({ session }) => session.id))
  const target = before ?? expected.known.findLast((known) => known.scope === scope)
  const asked = requests.filter((request) => 'mode' in request || target !== undefined)
  const [answers] = await Promise.all([
    Promise.all(
      asked.map((request) =>
        'mode' in request ? negotiate(world, expected, { ...request, scope }) : byId(world, target as Known, request),
      ),
    ),
    ...reaps.map((broker) => world.brokers[broker]?.reap()),
  ])
  const said = JSON.stringify(
    asked.map((request, i) => [request, answers[i]?.status, answers[i]?.body.session_id ?? answers[i]?.body.error]),
  )
  const of = (test: (request: Negotiate | ById) => boolean) => answers.filter((_, i) => test(asked[i] as Negotiate | ById))
  const negotiated = of((request) => 'mode' in request)
  const released = of((request) => 'does' in request && request.does === 'release').filter(({ status }) => status === 204)
  const ensured = of((request) => 'mode' in request && request.mode === 'ensure')
  const created = of((request) => 'mode' in request && request.mode === 'create_only').filter(({ status }) => status === 200)
  expect(released.length, `released once: ${said}`).toBeLessThanOrEqual(1)
  for (const { status } of ensured) expect(status, `plain concurrent ensure: ${said}`).toBe(200)
  for (const { status } of answers) expect([200, 204, 404, 409, 410, 423], said).toContain(status)
  const ids = new Set(negotiated.filter(({ status }) => status === 200).map(({ body }) => String(body.session_id)))
  for (const id of ids) expect(ended.has(id), `an ended session came back: ${said}`).toBe(false)
  const fresh = [...ids].filter((id) => id !== before?.session.id)
  expect(fresh.length, `two sessions for one scope: ${said}`).toBeLessThanOrEqual(1)
  expect(created.length, `created twice: ${said}`).toBeLessThanOrEqual(1)
  if (fresh.length > 0 && before !== undefined)
    expect(await isOver(world, before), `a second session beside a live one: ${said}`).toBe(true)
  for (const id of fresh) await expected.learn(world, id, scope, shapeOf(await world.store.sessions.byId(id)))
  for (const known of expected.known) if (known.scope === scope || reaps.length > 0) await adopt(world, known, said)
  expect(expected.known.filter((known) => known.scope === scope && isLive(known.session)).length, said).toBeLessThanOrEqual(1)
}

const isOver = async (world: World, { session }: Known): Promise<boolean> => {
  const row = await world.store.sessions.byId(session.id)
  return row === undefined || !isLive(row)
}

const shapeOf = (session: { shape: 'mvp' | 'full' } | undefined) => session?.shape ?? expect.fail('a session that is not in the database')

const adopt = async (world: World, known: Known, said: string): Promise<void> => {
  const { session } = known
  const row = await world.store.sessions.byId(session.id)
  if (row === undefined) return
  if (!isLive(session)) expect(isLive(row), `it came back to life: ${said}`).toBe(false)
  const moved = Math.max(session.leaseExpiresAt, world.now + session.profile.lease_seconds * 1000)
  expect([session.leaseExpiresAt, moved], `the lease: ${said}`).toContain(row.leaseExpiresAt)
  known.session = row
}
