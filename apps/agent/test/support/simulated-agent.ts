import { randomBytes, randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type AgentInstance,
  type AgentInstructions,
  newSandboxId,
  type ProviderReport,
  type SandboxRecord,
  type SandboxReport,
} from '@boxoffice/protocol'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { createBrokerClient } from '../../src/broker-link/broker-client.ts'
import { type BrokerLink, createBrokerLink } from '../../src/broker-link/broker-link.ts'
import type { AgentIdentity } from '../../src/broker-link/identity.ts'
import { createJournal } from '../../src/broker-link/journal.ts'
import { ReportedSandboxes } from '../../src/broker-link/reported-sandboxes.ts'

export type SimulatedAgentOptions = {
  brokerUrl: string
  enrollToken: string
  /** Where its control API is reached. */
  url: string
  identity: AgentIdentity
  /** How many sandboxes it has room for. */
  room: number
}

type Simulated = SandboxRecord & { session_id: string; suspended: 'frozen' | 'stopped' | undefined; usedAt: number }

const PROVIDER: ProviderReport = {
  ...{ name: 'simulated', isolation: 'none', available: true, reason: null, suspend: ['freeze', 'stop'] },
  capabilities: { limits: [], not_enforced: [], network: true, extra_mounts: true, oci_runtimes: [], images: false },
}

/**
 * An agent whose sandboxes do nothing: what it tells the broker, and how often, is the real agent's code; its control API believes every
 * caller. Its sandboxes cost it an entry in a map.
 */
export class SimulatedAgent {
  readonly #instance: AgentInstance = { install_id: randomUUID(), instance_id: randomBytes(6).toString('hex') }
  readonly #options: SimulatedAgentOptions
  readonly #sandboxes = new Map<string, Simulated>()
  readonly #bySession = new Map<string, Simulated>()
  readonly #link: BrokerLink
  /** Reports that the broker has answered. */
  reports = 0

  constructor(options: SimulatedAgentOptions) {
    this.#options = options
    const { brokerUrl, enrollToken, identity, url } = options
    const reported = new ReportedSandboxes()
    const instance = this.#instance
    this.#link = createBrokerLink({
      broker: createBrokerClient({ brokerUrl, enrollToken: async () => enrollToken, identity }),
      inventory: () => ({
        ...instance,
        ...{ public_url: url, control_url: url, relay: 'auto', provider: PROVIDER, capacity: this.#capacity() },
        ...{ sandboxes: this.#all(), partial: false, clock: new Date().toISOString(), version: '0.0.0' },
      }),
      count: () => this.#sandboxes.size,
      heartbeat: (extent, journal) => ({
        ...{ instance_id: instance.instance_id, provider: PROVIDER, capacity: this.#capacity(), journal },
        sandboxes: extent === 'all' ? this.#all() : reported.changed(this.#all()),
        partial: extent !== 'all',
      }),
      onAnswered: (report, response) => {
        this.reports++
        reported.taken(report, response)
      },
      journal: createJournal(new Registry()),
      onRegistered: async () => {},
      onInstructions: async (instructions) => this.#follow(instructions),
      onRefused: (error) => process.stderr.write(`an agent was refused: ${error.message}\n`),
      log: pino({ level: 'silent' }),
    })
  }

  get size(): number {
    return this.#sandboxes.size
  }

  start(): Promise<void> {
    return this.#link.start()
  }

  stop(): Promise<void> {
    return this.#link.stop()
  }

  /** The values of secrets for a session that is here, as the real agent asks for them. */
  secretsOf(sessionId: string, names: readonly string[]): ReturnType<BrokerLink['secretsOf']> {
    return this.#link.secretsOf(sessionId, names)
  }

  /** Somebody uses so many of its sandboxes, chosen at random. */
  use(count: number): void {
    const all = [...this.#sandboxes.values()]
    for (let i = 0; i < count && all.length > 0; i++) {
      const sandbox = all[Math.floor(Math.random() * all.length)]
      if (sandbox !== undefined) sandbox.usedAt = performance.now()
    }
  }

  /** Answers a call of the control API (packages/protocol/src/agents/control.ts). */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of request) text += chunk
    const { pathname } = new URL(request.url ?? '/', this.#options.url)
    const reply = (status: number, body?: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(body && JSON.stringify(body))
    }
    const [, , , kind, id = '', action] = pathname.split('/')
    if (kind === 'sessions') return reply(200, recordOf(this.#make(id)))
    if (kind === 'instance') return reply(200, this.#instance)
    if (kind !== 'sandboxes') return reply(204)
    if (id === '') return reply(200, { sandboxes: this.#all() })
    const sandbox = this.#sandboxes.get(id)
    if (request.method === 'DELETE') {
      this.#remove(id)
      return reply(204)
    }
    if (sandbox === undefined) return reply(404, { error: { code: 'BINDING_NOT_FOUND', message: 'no such sandbox' } })
    if (action === 'suspend') sandbox.suspended = (JSON.parse(text) as { mode: string }).mode === 'freeze' ? 'frozen' : 'stopped'
    if (action === 'resume') sandbox.suspended = undefined
    reply(200, reportOf(sandbox))
  }

  #make(sessionId: string): Simulated {
    const present = this.#bySession.get(sessionId)
    if (present !== undefined) return present
    const sandbox: Simulated = {
      ...{ sandbox_id: newSandboxId(), session_id: sessionId, provider: 'simulated', isolation: 'none', generation: 1, state: 'running' },
      ...{ profile_hash: '0'.repeat(16), from_pool: false, suspended: undefined, usedAt: performance.now() },
    }
    this.#sandboxes.set(sandbox.sandbox_id, sandbox)
    this.#bySession.set(sessionId, sandbox)
    return sandbox
  }

  #remove(id: string): void {
    const sandbox = this.#sandboxes.get(id)
    this.#sandboxes.delete(id)
    if (sandbox !== undefined) this.#bySession.delete(sandbox.session_id)
  }

  #follow({ decisions }: AgentInstructions): void {
    for (const { sandbox_id: id, action } of decisions) if (action === 'destroy') this.#remove(id)
  }

  #all(): SandboxReport[] {
    return [...this.#sandboxes.values()].map(reportOf)
  }

  #capacity() {
    const { room } = this.#options
    return {
      ...{ sessions: this.size, room: Math.max(0, room - this.size), limit: 'memory' },
      ...{ memory: { have: room * 1e9, asked: this.size * 1e9 }, processors: { have: room, asked: this.size } },
    }
  }
}

const reportOf = ({ sandbox_id, session_id, suspended, generation, profile_hash, usedAt }: Simulated): SandboxReport => ({
  ...{ sandbox_id, session_id, state: suspended ?? 'running', generation, profile_hash, reason: null },
  activity: { running: 0, attached: 0, idle_ms: performance.now() - usedAt },
})

const recordOf = ({ suspended: _, usedAt: __, ...record }: Simulated): SandboxRecord => record
