import { transition } from '../../src/domain/lifecycle.ts'
import { isPlaced, type PlacedSession } from '../../src/domain/session.ts'
import type { Expected, Known } from './expected.ts'
import type { World } from './world.ts'

/** What happens to sandboxes, agents and clocks, and what brokers are to make of it. */

/** A report of all that the agent has [4-95]: what is lost ends its session, what is used keeps it. */
export const report = async (world: World, expected: Expected): Promise<void> => {
  foresee(world, expected)
  await world.agent.heartbeat()
}

/** A session this young may be missing from a report that was on its way when its sandbox was made. */
const YOUNG_MS = 10_000

/** A registration that knows none of the sessions from before it is not believed for so long. */
const DOUBT_MS = 10_000

const foresee = (world: World, expected: Expected): void => {
  const has = ({ sandboxId }: PlacedSession) => world.agent.sandboxes.has(sandboxId)
  const isEarlier = ({ activatedAt }: PlacedSession) => activatedAt < world.registeredAt
  const earlier = [...expected.live()]
    .map(({ session }) => session)
    .filter(isPlaced)
    .filter(isEarlier)
  const inDoubt = world.now - world.registeredAt < DOUBT_MS && !earlier.some(has)
  for (const known of expected.live()) {
    const { session } = known
    if (!isPlaced(session)) continue
    if (has(session)) heed(world, expected, known, session)
    else if (inDoubt && isEarlier(session)) continue
    else if (world.now - session.activatedAt > YOUNG_MS) expected.apply(known, { type: 'sandbox_lost', reason: 'sandbox_missing' })
  }
}

/** What the agent says of one sandbox that it has. */
const heed = (world: World, expected: Expected, known: Known, session: PlacedSession): void => {
  const sandbox = world.agent.sandboxes.get(session.sandboxId)
  if (sandbox === undefined) return
  if (sandbox.state === 'lost') return expected.apply(known, { type: 'sandbox_lost', reason: 'container died' })
  const at = world.now - sandbox.activity.idle_ms
  const busy = sandbox.activity.running > 0
  // Small moves are not written: the timers that they feed are minutes long.
  const told =
    session.state === 'suspended'
      ? busy || at > session.suspendedAt
      : busy !== session.busy || at > session.lastActivityAt + 1000 || (busy && world.now - session.lastActivityAt > 10_000)
  if (told) expected.apply(known, { type: 'activity', at, busy })
}

/** The agent's process ends and another one starts; with `keep` it finds the sandboxes, else nothing. It registers with all it has. */
export const restartAgent = async (world: World, expected: Expected, keep: boolean): Promise<void> => {
  // What it was asked just before it ended is asked again half a second later, which nobody has time for here.
  await world.settled()
  await world.stopAgent()
  if (!keep) world.agent.sandboxes.clear()
  world.registeredAt = world.now
  foresee(world, expected)
  await world.startAgent()
}

/** What is due gets its tick. */
export const reap = async (world: World, expected: Expected, broker: number): Promise<void> => {
  const tick = { type: 'tick', suspend: ['freeze', 'stop'] } as const
  for (const known of expected.live()) {
    const { session } = known
    if (session.dueAt > world.now) continue
    const { session: after } = transition(session, tick, world.now)
    // Before an unused one is ended its agent is asked; what it has not is not in use.
    if (isPlaced(session) && after.state === 'terminated' && after.reason !== 'hard_ttl') heed(world, expected, known, session)
    expected.apply(known, tick)
  }
  await world.brokers[broker]?.reap()
}

export const letGo = async (world: World, expected: Expected): Promise<void> => {
  expected.held = false
  await world.letGo()
  for (const known of expected.live()) {
    if (known.session.state !== 'provisioning') continue
    const row = await world.store.sessions.byId(known.session.id)
    if (row === undefined || !isPlaced(row)) throw new Error(`${known.session.id} was not made: ${JSON.stringify(row)}`)
    const { agentId, sandboxId, provider, isolation, network, incarnation } = row
    expected.apply(known, {
      type: 'created',
      fence: known.session.fence,
      placed: { agentId, sandboxId, provider, isolation, network, incarnation },
    })
  }
}

/** Something uses the sandbox over its dataplane, which the agent wakes for it. */
export const use = (world: World, known: Known, running: number): void => {
  const sandbox = isPlaced(known.session) ? world.agent.sandboxes.get(known.session.sandboxId) : undefined
  if (sandbox === undefined || sandbox.state === 'lost') return
  sandbox.suspended = null
  sandbox.activity = { running, attached: 0, idle_ms: 0 }
}

export const crash = (world: World, known: Known, trace: boolean): void => {
  if (!isPlaced(known.session)) return
  const sandbox = world.agent.sandboxes.get(known.session.sandboxId)
  if (sandbox === undefined) return
  if (trace) sandbox.state = 'lost'
  else world.agent.sandboxes.delete(sandbox.sandbox_id)
}
