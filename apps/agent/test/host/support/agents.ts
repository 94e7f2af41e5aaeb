import { mkdtemp, rm } from 'node:fs/promises'
import { Profile } from '@boxoffice/protocol'
import { afterEach, beforeEach } from 'vitest'
import { type Agent, AgentConfig, type AgentOverrides, type AgentReady, createAgent } from '../../../src/index.ts'
import { ENROLL_TOKEN, TestBroker } from './broker.ts'
import { silent } from './host.ts'

/** Whole agents on one data directory, and the broker that they register with: both anew for each test of a file. */
export class TestAgents {
  broker!: TestBroker
  dataDir!: string
  readonly #running = new Set<Agent>()

  /** For the top of a file. */
  static forEachTest(): TestAgents {
    const agents = new TestAgents()
    beforeEach(async () => {
      agents.broker = await TestBroker.start()
      agents.dataDir = await mkdtemp('/tmp/bxa-')
    })
    afterEach(async () => {
      for (const agent of agents.#running) await agents.end(agent)
      await agents.broker.close()
      await rm(agents.dataDir, { recursive: true, force: true })
    })
    return agents
  }

  #configure(fields: Record<string, unknown>): AgentConfig {
    return AgentConfig.parse({
      dataDir: this.dataDir,
      port: 0,
      brokerUrl: this.broker.url,
      enrollToken: ENROLL_TOKEN,
      provider: 'local',
      destroyOnExit: true,
      ...fields,
    })
  }

  async begin(fields: Record<string, unknown> = {}, overrides: AgentOverrides = {}): Promise<AgentReady & { agent: Agent }> {
    const agent = createAgent(this.#configure(fields), { log: silent, ...overrides })
    this.#running.add(agent)
    return { agent, ...(await agent.start()) }
  }

  async end(agent: Agent): Promise<void> {
    this.#running.delete(agent)
    await agent.close()
  }

  /** A request to an agent's control API. */
  async control(ready: AgentReady, method: string, path: string, body?: unknown, token = this.broker.controlToken()) {
    const response = await fetch(ready.controlUrl + path, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: response.status === 204 ? undefined : ((await response.json()) as Record<string, unknown>) }
  }

  create(ready: AgentReady, session: string, fields: Partial<Profile> = {}) {
    return this.control(ready, 'PUT', `/control/v1/sessions/${session}/sandbox`, { tenant_id: 't', profile: profile(fields) })
  }
}

export const profile = (fields: Partial<Profile> = {}): Profile => Profile.parse({ name: 'default', ...fields })
