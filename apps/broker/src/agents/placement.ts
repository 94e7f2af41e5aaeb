import { BoxofficeError, type RelayPreference } from '@boxoffice/protocol'
import type { AgentRecord, Store } from '../store/store.ts'
import { modeOf, requireMode } from './dataplane-mode.ts'
import type { AgentSilence } from './silence.ts'

const NONE: ReadonlySet<string> = new Set()

export type PlacementPreferences = {
  except?: ReadonlySet<string>
  preferred?: readonly string[]
  provider?: string | null
  relay?: RelayPreference | null
  /** A client has named an image: an agent without images would run it in something else. */
  needsImage?: boolean
  /** An agent that is there for this alone; default: one that is there for everything. */
  reserved?: AgentRecord['provider']['reserved']
}

/** Names that mean a provider here whether or not an agent has it; of all others at least one agent must have it [4-176]. */
const SHIPPED: ReadonlySet<string> = new Set(['docker', 'kubernetes', 'local'])

/** Says which agent gets the next sandbox, and which are there at all. */
export class Placement {
  readonly #store: Store
  readonly #timeoutMs: number
  readonly #silence: Pick<AgentSilence, 'ms'>
  /** By agent: how many sessions have been given to it whose rows are still being written. */
  readonly #pending = new Map<string, number>()

  constructor(store: Store, timeoutMs: number, silence: Pick<AgentSilence, 'ms'>) {
    this.#store = store
    this.#timeoutMs = timeoutMs
    this.#silence = silence
  }

  /**
   * The first available one of `preferred`, else the available agent with the fewest live sessions; leaving out `except`, and
   * with `provider` all that have another one, and with `relay` those that cannot be reached so. 503 when there is none, saying why.
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
      return await write(agent)
    } finally {
      count(agent, -1)
    }
  }

  /** `chosen` is called in the turn of the choice, so that the next choice sees what it counts. */
  async #choose(
    { except = NONE, preferred = [], provider = null, relay = null, needsImage = false, reserved }: PlacementPreferences,
    chosen: (agent: AgentRecord) => void,
  ): Promise<AgentRecord> {
    const agents = (await this.#store.agents.list()).filter((agent) => !except.has(agent.id) && agent.provider.reserved === reserved)
    const fitting = provider === null ? agents : agents.filter((agent) => agent.provider.name === provider)
    const present = fitting.filter((agent) => this.isHeard(agent) && agent.provider.available)
    const available = needsImage ? present.filter(({ provider: { capabilities } }) => capabilities?.images !== false) : present
    if (available.length === 0 && present[0] !== undefined) throw withoutImages(present[0])
    const usable = available.filter((agent) => modeOf(relay ?? 'auto', agent.relay) !== undefined)
    if (usable.length === 0 && available[0] !== undefined) requireMode(relay ?? 'auto', available[0])
    const [first, ...others] = usable
    if (first === undefined)
      throw unavailable(
        fitting.filter((agent) => this.isHeard(agent)),
        provider,
      )
    const wanted = preferred.flatMap((id) => usable.find((one) => one.id === id) ?? [])[0]
    const sole = others.length === 0 ? first : wanted
    // Nothing is awaited between the look at the pending ones and the call of `chosen`.
    const agent = sole ?? this.#leastLoaded(usable, await this.#store.counts.liveByAgent())
    chosen(agent)
    return agent
  }

  #leastLoaded(agents: readonly AgentRecord[], live: Record<string, number>): AgentRecord {
    const load = ({ id }: AgentRecord): number => (live[id] ?? 0) + (this.#pending.get(id) ?? 0)
    return agents.reduce((best, agent) => (load(agent) < load(best) ? agent : best))
  }

  /** Every agent that could get any sandbox now. */
  async available(): Promise<AgentRecord[]> {
    return (await this.#store.agents.list()).filter(
      (agent) => this.isHeard(agent) && agent.provider.available && agent.provider.reserved === undefined,
    )
  }

  /** 400 for a provider that no agent of this broker ever had. */
  async requireKnown(provider: string): Promise<void> {
    if (SHIPPED.has(provider)) return
    const names = new Set((await this.#store.agents.list()).flatMap(({ provider: { name } }) => name ?? []))
    if (names.has(provider)) return
    const known = [...new Set([...SHIPPED, ...names])].sort().join(', ')
    throw new BoxofficeError('INVALID_REQUEST', `provider_preference: there is no provider "${provider}"; use auto, or one of ${known}`, {
      details: { field: 'provider_preference' },
    })
  }

  /** Whether the agent has reported lately. */
  isHeard(agent: AgentRecord): boolean {
    return this.#silence.ms(agent) <= this.#timeoutMs
  }
}

function withoutImages({ provider: { name } }: AgentRecord): BoxofficeError {
  const message = `image: the provider "${name}" has no images; leave image out, or start an agent with: boxoffice agent --provider docker`
  return new BoxofficeError('INVALID_REQUEST', message, { details: { field: 'image' } })
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
