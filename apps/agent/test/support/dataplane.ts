import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Profile, SessionTokenClaims } from '@boxoffice/protocol'
import { Registry } from 'prom-client'
import { createDataplane, type Dataplane } from '../../src/http/app.ts'
import { createKeySource } from '../../src/http/keys.ts'
import { createRevocationStore, type RevocationStore } from '../../src/http/revocations.ts'
import { quiet, TestSandbox } from './sandbox.ts'
import { createTestIssuer, ISSUER, type TestIssuer } from './tokens.ts'

/** A dataplane on a free port with one sandbox: everything real but broker and provider. */
export class TestDataplane {
  readonly sandbox: TestSandbox
  readonly issuer: TestIssuer
  readonly revocations: RevocationStore
  readonly dataplane: Dataplane
  readonly token: string
  readonly #server: Server

  private constructor(parts: {
    sandbox: TestSandbox
    issuer: TestIssuer
    revocations: RevocationStore
    dataplane: Dataplane
    token: string
    server: Server
  }) {
    this.sandbox = parts.sandbox
    this.issuer = parts.issuer
    this.revocations = parts.revocations
    this.dataplane = parts.dataplane
    this.token = parts.token
    this.#server = parts.server
  }

  static async start(options: { profile?: Partial<Profile>; corsOrigins?: string[] } = {}): Promise<TestDataplane> {
    const sandbox = await TestSandbox.start(options.profile)
    const now = (): number => Date.now() / 1000
    const issuer = createTestIssuer({ sandboxId: sandbox.id, sessionId: sandbox.sessionId })
    const revocations = createRevocationStore(now)
    const dataplane = createDataplane({
      sandboxes: { get: (id) => (id === sandbox.id ? sandbox : undefined) },
      keys: createKeySource({ load: () => Promise.resolve(issuer.jwks) }),
      revocations,
      issuer: () => ISSUER,
      now,
      corsOrigins: options.corsOrigins ?? [],
      log: quiet,
      metrics: new Registry(),
    })
    const server = createServer({ requestTimeout: 0 }, (incoming, outgoing) => {
      if (!dataplane.handle(incoming, outgoing)) outgoing.writeHead(404).end()
    })
    server.on('upgrade', (request, socket, head) => dataplane.upgrade(request, socket, head))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new TestDataplane({ sandbox, issuer, revocations, dataplane, token: await issuer.sign(), server })
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** `http_base_url`. */
  get base(): string {
    return `${this.origin}/sandboxes/${this.sandbox.id}/v1`
  }

  get wsBase(): string {
    return this.base.replace('http:', 'ws:')
  }

  sign(claims: Partial<SessionTokenClaims>): Promise<string> {
    return this.issuer.sign(claims)
  }

  fetch(path: string, init: RequestInit & { token?: string } = {}): Promise<Response> {
    const { token = this.token, ...rest } = init
    return fetch(this.base + path, { ...rest, headers: { Authorization: `Bearer ${token}`, ...(rest.headers as Record<string, string>) } })
  }

  post(path: string, body: unknown, init: RequestInit & { token?: string } = {}): Promise<Response> {
    return this.fetch(path, {
      ...init,
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json', ...(init.headers as Record<string, string>) },
    })
  }

  /** `POST /exec` that must answer 200. */
  async exec(body: Record<string, unknown>): Promise<Record<string, unknown>> {
    const response = await this.post('/exec', body)
    const result = (await response.json()) as Record<string, unknown>
    if (response.status !== 200) throw new Error(`exec: ${response.status} ${JSON.stringify(result)}`)
    return result
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dataplane.close()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    await this.sandbox[Symbol.asyncDispose]()
  }
}
