import { shuffled } from '@boxoffice/kit/shuffled'
import { BoxofficeError, type RelayPreference } from '@boxoffice/protocol'
import type { SessionCounts } from '../store/session-store.ts'
import type { AgentRecord } from '../store/store.ts'
import type { AgentDirectory } from './agent-directory.ts'
import { modeOf, requireMode } from './dataplane-mode.ts'
import { compareLoads, type Demand, loadOf, NO_DEMAND, usualSize } from './load.ts'
import type { AgentSilence } from './silence.ts'

const NONE: ReadonlySet<string> = new Set()

export type PlacementPreferences = {
  except?: ReadonlySet<string>
  preferred?: readonly string[]
  provider?: string | null
  relay?: RelayPreference | null
  /** A client has named an image: an agent without images would run it in something else. */
  needsImage?: boolean
  /** The profile's network is `proxy`: an agent without it could not start the sandbox, or would let programs past it. */
  needsEgress?: boolean
  /** An agent that is there for this alone; default: one that is there for everything. */
  reserved?: AgentRecord['provider']['reserved']
  /** What the sandbox asks for; default: nothing. */
  demand?: Demand
}

/** Names that mean a provider here whether or not an agent has it; of all others at least one agent must have it [4-176]. */
const SHIPPED: ReadonlySet<string> = new Set(['docker', 'kubernetes', 'local'])

export type PlacementOptions = {
  directory: AgentDirectory
  counts: Pick<SessionCounts, 'liveByAgent'>
  /** Silence after which an agent is given nothing. */
  timeoutMs: number
  silence: Pick<AgentSilence, 'ms'>
}

/** Agents whose sessions are counted at once; of those that are compared, the least taken ones by what is known of them. */
const COUNTED = 16

/** Says which agent gets the next sandbox, and which are there at all. */
export class Placement {
  readonly #options: PlacementOptions
  /** By agent: how many sessions have been given to it whose rows are still being written. */
  readonly #pending = new Map<string, number>()
  /** By agent: how many it has been given here since its report of this time. */
  readonly #given = new Map<string, { seenAt: number; count: number }>()

  constructor(options: PlacementOptions) {
    this.#options = options
  }

  /**
   * The first available one of `preferred`, else of the available agents that have room the one of which least is taken; leaving out
   * `except`, and with `provider` all that have another one, and with `relay` those that cannot be reached so. Where none has room, the
   * least taken one: it may have some again, and says what it is short of. 503 when there is none, saying why.
   */
  choose(preferences: PlacementPreferences = {}): Promise<AgentRecord> {
    return this.#choose(preferences, () => {})
  }

  /** Chooses an agent for a session that `write` writes; until that has ended, the agent counts as having it. */
  async place<T>(preferences: PlacementPreferences, write: (agent: AgentRecord) => Promise<T>): Promise<T> {
    const count = ({ id }: AgentRecord, by: number): void => {
      this.#pending.set(id, (this.#pending.get(id) ?? 0) + by)
      if (this.#pending.get(id) === 0) this.#pending.delete(id)
    }
    const agent = await this.#choose(preferences, (chosen) => count(chosen, 1))
    try {
      const written = await write(agent)
      this.#given.set(agent.id, { seenAt: agent.lastSeenAt, count: this.#givenTo(agent) + 1 })
      return written
    } finally {
      count(agent, -1)
    }
  }

  /** `chosen` is called in the turn of the choice, so that the next choice sees what it counts. */
  async #choose(preferences: PlacementPreferences, chosen: (agent: AgentRecord) => void): Promise<AgentRecord> {
    const { directory } = this.#options
    const { preferred = [], demand = NO_DEMAND } = preferences
    const usable = await directory
      .all()
      .then((agents) => this.#usable(agents, preferences))
      // Another broker may have heard of one a moment ago.
      .catch(async () => {
        await directory.refresh()
        return this.#usable(await directory.all(), preferences)
      })
    const wanted = preferred.flatMap((id) => usable.find((one) => one.id === id) ?? [])[0]
    const [first] = usable
    const sole = usable.length === 1 ? first : wanted
    if (sole === undefined) return this.#leastTaken(usable, demand, chosen)
    chosen(sole)
    return sole
  }

  /** One at least. */
  #usable(
    all: readonly AgentRecord[],
    { except = NONE, provider = null, relay = null, needsImage = false, needsEgress = false, reserved }: PlacementPreferences,
  ): AgentRecord[] {
    const agents = all.filter((agent) => !except.has(agent.id) && agent.provider.reserved === reserved)
    const fitting = provider === null ? agents : agents.filter((agent) => agent.provider.name === provider)
    const present = fitting.filter((agent) => this.isHeard(agent) && agent.provider.available)
    const withImages = needsImage ? present.filter(({ provider: { capabilities } }) => capabilities?.images !== false) : present
    if (withImages.length === 0 && present[0] !== undefined) throw withoutImages(present[0])
    const available = needsEgress ? withImages.filter(({ provider: { capabilities } }) => capabilities?.egress === true) : withImages
    if (available.length === 0 && withImages[0] !== undefined) throw withoutEgress(withImages[0])
    const usable = available.filter((agent) => modeOf(relay ?? 'auto', agent.relay) !== undefined)
    if (usable.length === 0 && available[0] !== undefined) requireMode(relay ?? 'auto', available[0])
    if (usable.length > 0) return usable
    throw unavailable(
      fitting.filter((agent) => this.isHeard(agent)),
      provider,
    )
  }

  /**
   * By the rows of all brokers, but without counting those of every agent: the reports, corrected by what this broker has given since,
   * say in which order to look. Agents that do not report what they have are all counted.
   */
  async #leastTaken(agents: readonly AgentRecord[], demand: Demand, chosen: (agent: AgentRecord) => void): Promise<AgentRecord> {
    const size = usualSize(agents)
    const pendingOf = ({ id }: AgentRecord): number => this.#pending.get(id) ?? 0
    const estimated = shuffled(agents.filter(({ capacity }) => capacity !== null))
      .map((agent) => ({ agent, load: loadOf(agent, this.#estimate(agent), demand, size) }))
      .sort((a, b) => compareLoads(a.load, b.load))
    let next = shuffled(agents.filter(({ capacity }) => capacity === null))
    const counted: { agent: AgentRecord; live: number }[] = []
    for (;;) {
      next = [...next, ...estimated.splice(0, COUNTED).map(({ agent }) => agent)]
      const live = await this.#options.counts.liveByAgent(next.map(({ id }) => id))
      for (const agent of next) counted.push({ agent, live: live[agent.id] ?? 0 })
      next = []
      // Nothing is awaited between this look at the pending ones and the call of `chosen`.
      const loads = counted.map(({ agent, live: rows }) => ({ agent, load: loadOf(agent, rows + pendingOf(agent), demand, size) }))
      const best = loads.reduce((least, one) => (compareLoads(one.load, least.load) < 0 ? one : least))
      const [other] = estimated
      if (other !== undefined && compareLoads(other.load, best.load) < 0) continue
      chosen(best.agent)
      return best.agent
    }
  }

  #estimate(agent: AgentRecord): number {
    return (agent.capacity?.sessions ?? 0) + this.#givenTo(agent) + (this.#pending.get(agent.id) ?? 0)
  }

  #givenTo({ id, lastSeenAt }: AgentRecord): number {
    const given = this.#given.get(id)
    return given?.seenAt === lastSeenAt ? given.count : 0
  }

  /** Every agent that could get any sandbox now. */
  async available(): Promise<AgentRecord[]> {
    return (await this.#options.directory.all()).filter(
      (agent) => this.isHeard(agent) && agent.provider.available && agent.provider.reserved === undefined,
    )
  }

  /** 400 for a provider that no agent of this broker ever had. */
  async requireKnown(provider: string): Promise<void> {
    if (SHIPPED.has(provider)) return
    await this.#options.directory.refresh()
    const names = new Set((await this.#options.directory.all()).flatMap(({ provider: { name } }) => name ?? []))
    if (names.has(provider)) return
    const known = [...new Set([...SHIPPED, ...names])].sort().join(', ')
    throw new BoxofficeError('INVALID_REQUEST', `provider_preference: there is no provider "${provider}"; use auto, or one of ${known}`, {
      details: { field: 'provider_preference' },
    })
  }

  /** Whether the agent has reported lately. */
  isHeard(agent: AgentRecord): boolean {
    const { silence, timeoutMs } = this.#options
    return silence.ms(agent) <= timeoutMs
  }
}

function withoutImages({ provider: { name } }: AgentRecord): BoxofficeError {
  const message = `image: the provider "${name}" has no images; leave image out, or start an agent with: boxoffice agent --provider docker`
  return new BoxofficeError('INVALID_REQUEST', message, { details: { field: 'image' } })
}

function withoutEgress({ provider: { name } }: AgentRecord): BoxofficeError {
  const message = `network: the provider "${name}" has no proxy here; choose another profile, or an agent with isolation and of this release`
  return new BoxofficeError('UNSUPPORTED', message, { details: { field: 'network' } })
}

function unavailable(reporting: AgentRecord[], provider: string | null): BoxofficeError {
  const reason = reporting.find((agent) => agent.provider.reason !== null)?.provider.reason
  const message =
    reporting.length === 0
      ? provider === null
        ? 'no agent is connected; start one with: boxoffice agent'
        : `no agent with the provider "${provider}" is connected; start one with: boxoffice agent --provider ${provider}, or leave provider_preference to auto`
      : `no agent has an available provider${reason ? `: ${reason}` : ''}`
  return new BoxofficeError('BACKEND_UNAVAILABLE', message, { retryAfter: 2 })
}
