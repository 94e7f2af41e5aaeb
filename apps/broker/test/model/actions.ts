import fc from 'fast-check'
import type { Expected } from './expected.ts'
import { type ById, byIdAlone, type Negotiate, negotiateAlone, together } from './requests.ts'
import { crash, letGo, reap, report, restartAgent, use } from './surroundings.ts'
import type { World } from './world.ts'

export const CLIENTS = 3
const SCOPES = 2

/** One thing that happens. `pick` chooses among the sessions that the run knows, ended ones included. */
export type Action =
  | { do: 'negotiate'; request: Negotiate }
  | { do: 'by id'; request: ById }
  | { do: 'together'; scope: number; requests: (Negotiate | ById)[]; reaps: number[] }
  /** Time, at the end of which reapers look. */
  | { do: 'pass'; seconds: number; reaps: number[] }
  | { do: 'reap'; broker: number }
  | { do: 'report' }
  | { do: 'use'; pick: number; running: number }
  | { do: 'crash'; pick: number; trace: boolean }
  | { do: 'restart agent'; keep: boolean }
  | { do: 'hold' }
  | { do: 'let go' }
export type Kind = Action['do']

const who = { broker: fc.nat({ max: 1 }), client: fc.nat({ max: CLIENTS - 1 }) }
const scope = fc.nat({ max: SCOPES - 1 })
const pick = fc.nat({ max: 9 })
const negotiation = fc.record<Negotiate>({
  ...who,
  scope,
  mode: fc.constantFrom('ensure', 'ensure', 'ensure', 'get', 'attach_only', 'create_only'),
  shape: fc.constantFrom('mvp', 'full'),
  profile: fc.nat({ max: 1 }),
})
const does = fc.constantFrom<ById['does'][]>('read', 'refresh', 'refresh-token', 'heartbeat', 'heartbeat', 'release')
const byItsId = fc.record<ById>({ ...who, does, pick })
const seconds = fc.oneof(fc.constantFrom(0.001, 1, 6, 11, 19, 20, 21, 121, 200, 250, 301, 2001), fc.nat({ max: 600 }))

const kinds: { [K in Kind]: fc.Arbitrary<Action & { do: K }> } = {
  negotiate: fc.record({ do: fc.constant('negotiate'), request: negotiation }),
  'by id': fc.record({ do: fc.constant('by id'), request: byItsId }),
  together: fc.record({
    do: fc.constant('together'),
    scope,
    requests: fc.array(fc.oneof(negotiation, byItsId), { minLength: 1, maxLength: 5 }),
    reaps: fc.subarray([0, 1]),
  }),
  pass: fc.record({ do: fc.constant('pass'), seconds, reaps: fc.subarray([0, 1]) }),
  reap: fc.record({ do: fc.constant('reap'), broker: fc.nat({ max: 1 }) }),
  report: fc.constant({ do: 'report' }),
  use: fc.record({ do: fc.constant('use'), pick, running: fc.nat({ max: 1 }) }),
  crash: fc.record({ do: fc.constant('crash'), pick, trace: fc.boolean() }),
  'restart agent': fc.record({ do: fc.constant('restart agent'), keep: fc.boolean() }),
  hold: fc.constant({ do: 'hold' }),
  'let go': fc.constant({ do: 'let go' }),
}

/** Sequences in which a kind is as frequent as its weight; kinds without one do not occur. */
export const commands = (weights: Partial<Record<Kind, number>>, onDone: (kind: Kind) => void) =>
  fc.commands(
    (Object.entries(weights) as [Kind, number][]).flatMap(([kind, weight]) =>
      Array.from({ length: weight }, () => kinds[kind].map((action) => new Command(action, onDone))),
    ),
    { maxCommands: 24, size: 'max' },
  )

class Command implements fc.AsyncCommand<Expected, World> {
  readonly #action: Action
  readonly #onDone: (kind: Kind) => void

  constructor(action: Action, onDone: (kind: Kind) => void) {
    this.#action = action
    this.#onDone = onDone
  }

  check({ held }: Expected): boolean {
    const kind = this.#action.do
    // What a slow agent makes cannot be waited for here, and does not survive the agent's process.
    if (kind === 'together' || kind === 'restart agent' || kind === 'hold') return !held
    return kind === 'let go' ? held : true
  }

  async run(expected: Expected, world: World): Promise<void> {
    await perform(this.#action, expected, world)
    await expected.requireSame(world)
    this.#onDone(this.#action.do)
  }

  toString(): string {
    return JSON.stringify(this.#action)
  }
}

const perform = async (action: Action, expected: Expected, world: World): Promise<unknown> => {
  const picked = (at: number) => expected.known[at % expected.known.length]
  switch (action.do) {
    case 'negotiate':
      return negotiateAlone(world, expected, action.request)
    case 'by id': {
      const known = picked(action.request.pick)
      return known && byIdAlone(world, expected, known, action.request)
    }
    case 'together':
      return together(world, expected, action)
    case 'pass':
      world.pass(Math.round(action.seconds * 1000))
      for (const broker of action.reaps) await reap(world, expected, broker)
      return
    case 'reap':
      return reap(world, expected, action.broker)
    case 'report':
      return report(world, expected)
    case 'use': {
      const known = picked(action.pick)
      return known && use(world, known, action.running)
    }
    case 'crash': {
      const known = picked(action.pick)
      return known && crash(world, known, action.trace)
    }
    case 'restart agent':
      return restartAgent(world, expected, action.keep)
    case 'hold':
      expected.held = true
      return world.hold()
    case 'let go':
      return letGo(world, expected)
  }
}
