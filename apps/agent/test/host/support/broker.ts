import { createPrivateKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { AgentHeartbeatRequest, AgentInstructions, Profile, RegisterAgentRequest } from '@boxoffice/protocol'

export const ENROLL_TOKEN = 'enroll-token-of-the-host-tests-0123456789'

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A small broker that follows the protocol: registers, hears, decides, signs. Everything an agent says is kept for the test. */
export class TestBroker {
  readonly registrations: RegisterAgentRequest[] = []
  readonly heartbeats: AgentHeartbeatRequest[] = []
  readonly agentId = `agt_${randomUUID()}`
  /** Sessions that the broker keeps; every other sandbox that is reported gets `destroy`. Undefined keeps all. */
  keeps: ReadonlySet<string> | undefined
  pools: Profile[] = []
  revocations: AgentInstructions['revocations'] = { sessions: [], tokens: [] }
  heartbeatSeconds = 0.2
  /** What it says of its control tokens; undefined as a broker of before. */
  bound: boolean | undefined
  url = ''
  refuses: { status: number } | undefined
  agentToken = randomUUID()
  #refusals = 0
  #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { status, body } = this.#answer(request.url ?? '', request.headers.authorization, Buffer.concat(chunks).toString() || 'null')
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  #keys = generateKeyPairSync('ed25519')
  #waiting = new Set<() => void>()

  static async start(port = 0): Promise<TestBroker> {
    const broker = new TestBroker()
    broker.#server.listen(port, '127.0.0.1')
    await once(broker.#server, 'listening')
    broker.url = `http://127.0.0.1:${(broker.#server.address() as AddressInfo).port}`
    return broker
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  /** Resolves with the first heartbeat (also an earlier one) that fits. */
  heartbeat(fits: (heartbeat: AgentHeartbeatRequest) => boolean): Promise<AgentHeartbeatRequest> {
    return this.#until(() => this.heartbeats.find(fits))
  }

  /** Resolves when this many registrations have come. */
  registered(count: number): Promise<RegisterAgentRequest> {
    return this.#until(() => this.registrations[count - 1])
  }

  /** Resolves when this many requests have been refused. */
  async refused(count: number): Promise<void> {
    await this.#until(() => (this.#refusals >= count ? true : undefined))
  }

  async #until<T>(look: () => T | undefined): Promise<T> {
    for (;;) {
      const found = look()
      if (found !== undefined) return found
      await new Promise<void>((resolve) => this.#waiting.add(resolve))
    }
  }

  #heard(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }

  controlToken(claims: Record<string, unknown> = {}): string {
    const now = Math.floor(Date.now() / 1000)
    return this.sign({ iss: this.url, aud: this.agentId, sub: 'broker', iat: now, exp: now + 30, jti: randomUUID(), ...claims })
  }

  sign(claims: Record<string, unknown>, header: Record<string, unknown> = {}): string {
    const text = `${base64({ alg: 'EdDSA', kid: 'k1', ...header })}.${base64(claims)}`
    return `${text}.${sign(null, Buffer.from(text), createPrivateKey(this.#keys.privateKey.export({ format: 'pem', type: 'pkcs8' }))).toString('base64url')}`
  }

  #answer(path: string, authorization: string | undefined, body: string): { status: number; body: unknown } {
    if (this.refuses !== undefined) {
      this.#refusals++
      this.#heard()
      return { status: this.refuses.status, body: {} }
    }
    if (path === '/.well-known/jwks.json') return { status: 200, body: this.#jwks() }
    if (path === '/v1/agents/register') {
      if (authorization !== `Bearer ${ENROLL_TOKEN}`) return { status: 401, body: {} }
      const request = JSON.parse(body) as RegisterAgentRequest
      this.registrations.push(request)
      this.#heard()
      const answer = { agent_id: this.agentId, agent_token: this.agentToken, issuer: this.url, jwks: this.#jwks(), clock_drift_ms: 0 }
      return { status: 200, body: { ...answer, ...this.#instructions(request.sandboxes) } }
    }
    if (path !== `/v1/agents/${this.agentId}/heartbeat`) return { status: 404, body: {} }
    if (authorization !== `Bearer ${this.agentToken}`) return { status: 401, body: {} }
    const request = JSON.parse(body) as AgentHeartbeatRequest
    this.heartbeats.push(request)
    this.#heard()
    return { status: 200, body: this.#instructions(request.sandboxes) }
  }

  #instructions(sandboxes: RegisterAgentRequest['sandboxes']): AgentInstructions {
    const { keeps } = this
    const decisions = sandboxes
      .filter(({ session_id }) => session_id !== null)
      .map(({ sandbox_id, session_id }) => ({
        sandbox_id,
        action: keeps === undefined || keeps.has(session_id ?? '') ? ('keep' as const) : ('destroy' as const),
      }))
    return {
      decisions,
      revocations: this.revocations,
      pools: this.pools,
      heartbeat_seconds: this.heartbeatSeconds,
      broker_time_ms: Date.now(),
      ...(this.bound === undefined ? {} : { control_tokens_bound: this.bound }),
    }
  }

  #jwks() {
    const { x } = this.#keys.publicKey.export({ format: 'jwk' })
    return { keys: [{ kty: 'OKP', crv: 'Ed25519', x, kid: 'k1', alg: 'EdDSA', use: 'sig' }] }
  }
}
