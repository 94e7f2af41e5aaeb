import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { SessionTokenClaims } from '@boxoffice/protocol'
import { expect } from 'vitest'
import { ROOT_TENANT } from '../../src/access/principals.ts'
import type { Session } from '../../src/domain/session.ts'
import { type Broker, createBroker } from '../../src/index.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import { type FakeAgent, startFakeAgent } from '../support/fake-agent.ts'
import { caller, removeDir, tempDir } from '../support/test-broker.ts'

export const LEASE_SECONDS = 250
const OPERATOR = 'model-operator-key-0123456789abcdefghijklmnop'
const ENROLL = 'model-enroll-token-0123456789abcdefghijklmnop'
const UNLIMITED = { perSecond: 1e9, burst: 1e9 }
const YEARS = 1e9

/** Each timer is shorter than the next, so that jumps of the clock meet them one by one and together. */
const PROFILE = {
  name: 'model',
  idle_after_seconds: 20,
  idle_timeout_seconds: 200,
  stop_after_seconds: 300,
  lease_seconds: LEASE_SECONDS,
  hard_ttl_seconds: 2_000,
  provision_timeout_seconds: 120,
}
export const PROFILES = ['model-suspend', 'model-terminate'] as const

export type Answer = { status: number; body: Record<string, unknown>; requestId: string; token: string | undefined }
export type Acquired = { requestId: string; sessionId: string; tokenHash: string }

/** Two brokers on one database, an agent, and a clock that stands still unless a test moves it. One world serves many runs. */
export class World {
  readonly store: Store
  readonly brokers: readonly Broker[]
  agent: FakeAgent
  /** Of all 200 answers of negotiate, to be found again in the audit log. */
  acquired: Acquired[] = []
  /** When the agent has registered last. */
  registeredAt: number
  readonly #clock: { now: number }
  readonly #callers: ReturnType<typeof caller>[][]
  readonly #parts: AsyncDisposableStack
  #gate = Promise.withResolvers<void>()
  #held = false

  static async start(clients: number): Promise<World> {
    await using parts = new AsyncDisposableStack()
    const dataDir = tempDir()
    parts.defer(() => removeDir(dataDir))
    // Ahead of the machine's clock, by which the agent judges the brokers' credentials.
    const clock = { now: Date.now() + 3_600_000 }
    const brokers: Broker[] = []
    const urls: string[] = []
    for (let i = 0; i < 2; i++) {
      const broker = createBroker(
        {
          port: 0,
          dataDir,
          sharedDataDir: true,
          apiKey: OPERATOR,
          enrollToken: ENROLL,
          logLevel: 'silent',
          maxSessions: 1e6,
          profiles: PROFILES.map((name) => ({ ...PROFILE, name, on_lease_expiry: name === 'model-suspend' ? 'suspend' : 'terminate' })),
          rateLimits: { createPerPrincipal: UNLIMITED, createPerTenant: UNLIMITED, authFailures: UNLIMITED },
          reaperIntervalMs: 3_600_000,
          agentTimeout: YEARS,
          agentLostAfter: YEARS,
          keyRotation: YEARS,
        },
        { now: () => clock.now, monotonic: () => clock.now },
      )
      brokers.push(broker)
      urls.push((await broker.start()).url)
      parts.defer(() => broker.close())
    }
    const [url = ''] = urls
    const keys = [OPERATOR]
    while (keys.length < clients) {
      const fields = { name: `c${keys.length}`, principal: `c${keys.length}`, role: 'operator' }
      keys.push((await caller(url, OPERATOR).post<{ key: string }>('/v1/keys', fields)).body.key)
    }
    const store = parts.use(await openSqliteStore(join(dataDir, 'broker.db')))
    const agent = await startFakeAgent({ brokerUrl: url, enrollToken: ENROLL, heartbeat: false })
    const callers = urls.map((broker) => keys.map((key) => caller(broker, key)))
    return new World({ store, brokers, agent, clock, callers, url, parts: parts.move() })
  }

  readonly #url: string

  private constructor(parts: {
    store: Store
    brokers: Broker[]
    agent: FakeAgent
    clock: { now: number }
    callers: ReturnType<typeof caller>[][]
    url: string
    parts: AsyncDisposableStack
  }) {
    this.store = parts.store
    this.brokers = parts.brokers
    this.agent = parts.agent
    this.#clock = parts.clock
    this.registeredAt = parts.clock.now
    this.#callers = parts.callers
    this.#url = parts.url
    this.#parts = parts.parts
    this.#hold()
  }

  get now(): number {
    return this.#clock.now
  }

  /** Sandboxes are used less recently by as much. */
  pass(ms: number): void {
    this.#clock.now += ms
    for (const { activity } of this.agent.sandboxes.values()) activity.idle_ms += ms
  }

  /** From now on the agent takes its time to make a sandbox, until `letGo`. */
  hold(): void {
    this.#held = true
    this.#gate = Promise.withResolvers<void>()
  }

  /** What was being made is made; resolves when the brokers know. */
  async letGo(): Promise<void> {
    this.#held = false
    this.#gate.resolve()
    while ((await this.store.sessions.provisioning()).length > 0) await new Promise((resolve) => setTimeout(resolve, 1))
  }

  stopAgent(): Promise<void> {
    return this.agent.close()
  }

  /** Another process of the same installation, with the sandboxes that are there. */
  async startAgent(): Promise<void> {
    const { installId, sandboxes } = this.agent
    this.agent = await startFakeAgent({ brokerUrl: this.#url, enrollToken: ENROLL, heartbeat: false, installId, sandboxes })
    this.#hold()
  }

  /** Nothing that the brokers want of the agent is under way any more. */
  async settled(): Promise<void> {
    for (const broker of this.brokers) await broker.settled()
  }

  /** After a run that failed: the next one, which may be a shorter form of it, finds nothing. */
  async clear(): Promise<void> {
    await this.letGo()
    const everything = { principal: null, state: null, scopeType: null, scopeId: null, label: null, limit: 1000, after: null }
    for (const { id } of await this.store.sessions.list({ tenant: ROOT_TENANT, ...everything })) await this.session(0, 0, 'DELETE', id)
    await this.settled()
    this.agent.sandboxes.clear()
  }

  async negotiate(broker: number, client: number, fields: Record<string, unknown>): Promise<Answer> {
    const answer = await this.#send(broker, client, 'POST', '/v1/sandbox/sessions', fields, { prefer: `wait=${this.#held ? 0 : 20}` })
    const { token, body, requestId } = answer
    if (answer.status === 200 && token !== undefined)
      this.acquired.push({
        requestId,
        sessionId: String(body.session_id),
        tokenHash: createHash('sha256').update(token).digest('base64url'),
      })
    return answer
  }

  session(broker: number, client: number, method: 'GET' | 'POST' | 'DELETE', id: string, action = ''): Promise<Answer> {
    return this.#send(broker, client, method, `/v1/sandbox/sessions/${id}${action}`, method === 'POST' ? {} : undefined)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent.close()
    await this.#parts.disposeAsync()
  }

  #hold(): void {
    this.agent.hooks.create = async () => {
      if (this.#held) await this.#gate.promise
      return undefined
    }
  }

  async #send(
    broker: number,
    client: number,
    method: string,
    path: string,
    fields?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer> {
    const from = this.#callers[broker]?.[client] ?? expect.fail('there is no such caller')
    const { status, headers: got, body } = await from.send<Answer['body'] | undefined>(method, path, fields, headers)
    const token = typeof body?.token === 'string' ? body.token : undefined
    if (token !== undefined) await this.#requireInTime(token)
    return { status, body: body ?? {}, requestId: got.get('x-request-id') ?? '', token }
  }

  /** [4-50, C-52] No token outlives its session. */
  async #requireInTime(token: string): Promise<void> {
    const { exp, sid } = SessionTokenClaims.parse(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()))
    const { hardExpiresAt } = (await this.store.sessions.byId(sid)) as Session
    expect(exp * 1000, 'a token past the hard TTL').toBeLessThanOrEqual(hardExpiresAt)
  }
}
