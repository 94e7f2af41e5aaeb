import fc from 'fast-check'
import { expect } from 'vitest'
import { isLive, isPlaced, type Session } from '../../src/domain/session.ts'
import { CLIENTS, commands, type Kind } from './actions.ts'
import { Expected } from './expected.ts'
import { letGo, report } from './surroundings.ts'
import { World } from './world.ts'

/** What the runs came by: how often each kind of action was carried out, and how sessions were and ended. */
export type Reached = { done: Map<Kind, number>; conditions: Set<string> }

/**
 * Lets random things happen, `runs` times, and after each thing compares every session with what the lifecycle says. A failure
 * prints its seed and the shortest sequence that still fails.
 */
export const interleave = async (runs: number, weights: Partial<Record<Kind, number>>): Promise<Reached> => {
  await using world = await World.start(CLIENTS)
  const reached: Reached = { done: new Map(), conditions: new Set() }
  const steps = commands(weights, (kind) => reached.done.set(kind, (reached.done.get(kind) ?? 0) + 1))
  let run = 0
  const property = fc.asyncProperty(steps, async (sequence) => {
    // Not in the same moment as the one before, whose audit entries are told apart by their time.
    world.pass(1000)
    const expected = new Expected(
      ++run,
      () => world.now,
      (session) => reached.conditions.add(conditionOf(session)),
    )
    const since = world.now
    world.acquired = []
    try {
      await fc.asyncModelRun(() => ({ model: expected, real: world }), sequence)
      await requireReconciled(world, expected)
      await requireAudited(world, since)
      await requireReleased(world, expected)
    } catch (thrown) {
      await world.clear()
      throw thrown
    }
  })
  await fc.assert(property, { numRuns: runs })
  return reached
}

const conditionOf = (session: Session): string => {
  if (session.state === 'suspended') return session.mode
  return isLive(session) ? session.state : session.reason
}

/** Once everybody has been heard, the database and the agent have the same sandboxes in the same condition, one for each session. */
const requireReconciled = async (world: World, expected: Expected): Promise<void> => {
  if (expected.held) await letGo(world, expected)
  await world.settled()
  world.pass(11_000)
  await report(world, expected)
  await world.settled()
  await expected.requireSame(world)
  const placed = expected
    .live()
    .map(({ session }) => session)
    .filter(isPlaced)
  const have = [...world.agent.sandboxes.values()].map(({ sandbox_id, session_id, suspended }) => [sandbox_id, session_id, suspended])
  const want = placed.map((session) => [session.sandboxId, session.id, session.state === 'suspended' ? session.mode : null])
  expect(have.sort(), 'sandboxes and sessions after reconcile').toEqual(want.sort())
}

/** [4-17, C-72] Each answer with a session is in the audit log, by its request and its token, and nothing else is. */
const requireAudited = async (world: World, since: number): Promise<void> => {
  const rows = await world.store.audit.query({
    tenant: null,
    event: 'sandbox.session.acquire',
    sessionId: null,
    threadId: null,
    caller: null,
    since: null,
    until: null,
    limit: world.acquired.length + 1,
    before: null,
  })
  const audited = rows
    .filter(({ ts }) => ts >= since)
    .map(({ requestId, sessionId, tokenHash }) => `${requestId} ${sessionId} ${tokenHash}`)
  expect(audited.sort()).toEqual(
    world.acquired.map(({ requestId, sessionId, tokenHash }) => `${requestId} ${sessionId} ${tokenHash}`).sort(),
  )
}

const requireReleased = async (world: World, expected: Expected): Promise<void> => {
  for (const { session } of expected.live()) expect((await world.session(0, 0, 'DELETE', session.id)).status).toBe(204)
  await world.settled()
  await world.agent.heartbeat()
  expect([...world.agent.sandboxes.keys()], 'sandboxes of released sessions').toEqual([])
}
