import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { keyThumbprint } from '@boxoffice/node-http'
import { type ManagedProcess, newSandboxId, newSessionId, type Profile, type SessionTokenClaims } from '@boxoffice/protocol'
import { Registry } from 'prom-client'
import { createKeySource } from '../../src/auth/keys.ts'
import { createRevocationStore, type RevocationStore } from '../../src/auth/revocations.ts'
import { createJournal, type Journal } from '../../src/broker-link/journal.ts'
import { createDataplane, type Dataplane } from '../../src/dataplane/app.ts'
import { createDiskFloor, type DiskFloor } from '../../src/host/disk-floor.ts'
import { createAccessJournal } from '../../src/http/access-journal.ts'
import { createDataplaneLimits, type DataplaneRates } from '../../src/http/dataplane-limits.ts'
import { ResponseBudget } from '../../src/http/responses/response-budget.ts'
import type { SandboxDirectory } from '../../src/sandbox/sandbox.ts'
import { quiet, TestSandbox } from './sandbox.ts'
import { AGENT_PUBLIC_KEY, createTestIssuer, ISSUER, type TestIssuer } from './tokens.ts'

/** What something before a dataplane has to know of it. */
export type TestPlane = { sandbox: TestSandbox; issuer: TestIssuer; origin: string; corsOrigins: string[] }

/** Stands between clients and a dataplane under test, with the same routes below `base`. */
export type Front = { origin: string; base: string; add(sessionId: string, sandboxId: string): string; close(): Promise<void> }

/** A dataplane on a free port with one sandbox: everything real but broker and provider. */
export class TestDataplane {
  /** Set where the suites run through the relay (test/dataplane). */
  static front: ((plane: TestPlane) => Promise<Front>) | undefined
  readonly sandbox: TestSandbox
  readonly issuer: TestIssuer
  readonly revocations: RevocationStore
  readonly dataplane: Dataplane
  /** Output that is kept for answers. */
  readonly answers: ResponseBudget
  readonly token: string
  /** What was told of those who came. */
  readonly journal: Journal
  readonly #server: Server
  readonly #front: Front | undefined
  readonly #sockets = new Set<Duplex>()

  private constructor(parts: {
    sandbox: TestSandbox
    issuer: TestIssuer
    revocations: RevocationStore
    dataplane: Dataplane
    answers: ResponseBudget
    token: string
    server: Server
    front: Front | undefined
    journal: Journal
  }) {
    this.sandbox = parts.sandbox
    this.issuer = parts.issuer
    this.revocations = parts.revocations
    this.dataplane = parts.dataplane
    this.answers = parts.answers
    this.token = parts.token
    this.#server = parts.server
    this.#front = parts.front
    this.journal = parts.journal
    this.#server.on('upgrade', (_request, socket) => this.#sockets.add(socket))
  }

  static async start(
    options: {
      profile?: Partial<Profile>
      corsOrigins?: string[]
      rates?: DataplaneRates
      splicePath?: string
      disk?: DiskFloor
      /** The one that runs inside the sandbox, where it is not today's. */
      supervisor?: string
    } = {},
  ): Promise<TestDataplane> {
    const { supervisor } = options
    const sandbox = await TestSandbox.start(options.profile, options.splicePath, supervisor === undefined ? {} : { supervisor })
    const now = (): number => Date.now() / 1000
    const issuer = createTestIssuer({ sandboxId: sandbox.id, sessionId: sandbox.sessionId })
    const revocations = createRevocationStore(now)
    const journal = createJournal(new Registry())
    const sandboxes: SandboxDirectory = { get: (id) => (id === sandbox.id ? sandbox : undefined), isAwaited: () => false }
    const answers = new ResponseBudget()
    const dataplane = createDataplane({
      sandboxes,
      keys: createKeySource({ load: () => Promise.resolve(issuer.jwks) }),
      revocations,
      issuer: () => ISSUER,
      thumbprint: keyThumbprint(AGENT_PUBLIC_KEY),
      now,
      corsOrigins: options.corsOrigins ?? [],
      limits: createDataplaneLimits(options.rates ?? {}),
      answers,
      access: createAccessJournal(journal, sandboxes),
      disk: options.disk ?? createDiskFloor({ dataDirectory: sandbox.directory, engineDirectory: () => undefined }),
      log: quiet,
      metrics: new Registry(),
    })
    const server = createServer({ requestTimeout: 0 }, (incoming, outgoing) => {
      if (!dataplane.handle(incoming, outgoing)) outgoing.writeHead(404).end()
    })
    server.on('upgrade', (request, socket, head) => dataplane.upgrade(request, socket, head))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const origin = originOf(server)
    const front = await TestDataplane.front?.({ sandbox, issuer, origin, corsOrigins: options.corsOrigins ?? [] })
    return new TestDataplane({ sandbox, issuer, revocations, dataplane, answers, token: await issuer.sign(), server, front, journal })
  }

  get origin(): string {
    return this.#front?.origin ?? originOf(this.#server)
  }

  /** `http_base_url`. */
  get base(): string {
    return this.#front?.base ?? `${this.origin}/sandboxes/${this.sandbox.id}/v1`
  }

  /** Base and claims for a sandbox that is not here. */
  missing(): { base: string; claims: Partial<SessionTokenClaims> } {
    const [sid, aud] = [newSessionId(), newSandboxId()]
    return { base: this.#front?.add(sid, aud) ?? `${this.origin}/sandboxes/${aud}/v1`, claims: { sid, aud, sandbox_id: aud } }
  }

  get wsBase(): string {
    return this.base.replace('http:', 'ws:')
  }

  /** Drops every socket, without a word. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
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

  /** What is told of a managed process. */
  async process(id: string): Promise<ManagedProcess> {
    return (await (await this.fetch(`/processes/${id}`)).json()) as ManagedProcess
  }

  upload(path: string, body: BodyInit, fields: Record<string, string> = {}, headers: Record<string, string> = {}): Promise<Response> {
    return this.fetch(`/files/upload?${new URLSearchParams({ path, ...fields })}`, { method: 'POST', body, headers })
  }

  download(path: string, headers: Record<string, string> = {}, fields: Record<string, string> = {}): Promise<Response> {
    return this.fetch(`/files/download?${new URLSearchParams({ path, ...fields })}`, { headers })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#front?.close()
    await this.dataplane.close()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    await this.sandbox[Symbol.asyncDispose]()
  }
}

const originOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
