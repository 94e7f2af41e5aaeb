import type { AgentRecord, AgentStore } from '../store/store.ts'

/** How long the list of agents counts as known: beside their reports to this broker, which are known at once, it rarely changes. */
const KNOWN_MS = 1000

/** All agents, as this broker has heard them and as the store had them a moment ago: who chooses among a thousand reads none of them. */
export class AgentDirectory {
  readonly #store: Pick<AgentStore, 'list'>
  readonly #monotonic: () => number
  #agents = new Map<string, AgentRecord>()
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(store: Pick<AgentStore, 'list'>, monotonic: () => number = () => performance.now()) {
    this.#store = store
    this.#monotonic = monotonic
  }

  /** By their registration. */
  async all(): Promise<AgentRecord[]> {
    if (this.#monotonic() - this.#readAt >= KNOWN_MS) await (this.#reading ?? this.refresh())
    return [...this.#agents.values()]
  }

  /** Reads the store again, for who has not found what there must be. Calls of one moment share a reading that begins after each of them. */
  async refresh(): Promise<void> {
    // One that is under way may have begun too early.
    await this.#reading?.catch(() => {})
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    await this.#reading
  }

  /** The agent has reported to this broker, and this is what the store has of it. */
  reported(agent: AgentRecord): void {
    if (this.#agents.has(agent.id)) this.#agents.set(agent.id, agent)
    else this.forget()
  }

  /** An agent has registered. */
  forget(): void {
    this.#readAt = Number.NEGATIVE_INFINITY
  }

  async #read(): Promise<void> {
    const at = this.#monotonic()
    const rows = await this.#store.list()
    // What has been heard while they were read is newer.
    const heard = this.#agents
    this.#agents = new Map(rows.map((row) => [row.id, newerOf(row, heard.get(row.id))]))
    this.#readAt = at
  }
}

const newerOf = (row: AgentRecord, heard: AgentRecord | undefined): AgentRecord =>
  heard !== undefined && heard.tokenHash === row.tokenHash && heard.lastSeenAt > row.lastSeenAt ? heard : row
