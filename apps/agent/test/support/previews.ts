import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestOptions, request, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { keyThumbprint, SERVER_OPTIONS } from '@boxoffice/node-http'
import { BoxofficeError, type PreviewRoute, previewAudience, type SessionTokenClaims } from '@boxoffice/protocol'
import { Registry } from 'prom-client'
import { createAuthenticator } from '../../src/auth/auth.ts'
import { createKeySource } from '../../src/auth/keys.ts'
import { createRevocationStore, type RevocationStore } from '../../src/auth/revocations.ts'
import { createJournal } from '../../src/broker-link/journal.ts'
import { createAccessJournal } from '../../src/http/access-journal.ts'
import { createExposedPorts, type ExposedPorts } from '../../src/preview/exposed-ports.ts'
import { createPreviewHosts, type PreviewHosts, type PreviewHostsOptions } from '../../src/preview/preview-hosts.ts'
import { quiet, TestSandbox } from './sandbox.ts'
import { AGENT_PUBLIC_KEY, createTestIssuer, ISSUER, type TestIssuer } from './tokens.ts'

/** A response that has come whole. */
export type Answer = { status: number; headers: IncomingMessage['headers']; raw: string[]; body: string }

/** Letters of base32 that no other label has. */
const labelOf = (count: number): string => `${'abcdefghijklmnopqrst'.slice(0, 18)}${'abcdefgh'[count >> 3]}${'abcdefgh'[count & 7]}`

type TestPreviewsOptions = Partial<Pick<PreviewHostsOptions, 'trustedProxies' | 'answerWithinMs'>>

/** What requests come through, in the place of the agent's own port. */
export type PreviewFront = { port: number; close(): Promise<void> }

/** Previews of one sandbox on a free port: a real supervisor and real connections; what the broker says is in maps of the test. */
export class TestPreviews {
  /** Set where a suite runs through something before the agent. */
  static front: ((previews: TestPreviews, trustedProxies: readonly string[]) => Promise<PreviewFront>) | undefined

  readonly sandbox: TestSandbox
  readonly issuer: TestIssuer
  readonly revocations: RevocationStore
  readonly exposed: ExposedPorts
  /** What the broker answers, by host; also what it was asked. */
  readonly routes = new Map<string, PreviewRoute>()
  readonly asked: string[] = []
  /** Codes of links that are good, with the host that each is for. */
  readonly codes = new Map<string, string>()
  readonly #hosts: PreviewHosts
  readonly #server: Server
  #front: PreviewFront | undefined
  #labels = 0

  private constructor(sandbox: TestSandbox, { trustedProxies = [], ...limits }: TestPreviewsOptions) {
    this.sandbox = sandbox
    this.issuer = createTestIssuer({ sandboxId: sandbox.id, sessionId: sandbox.sessionId })
    const now = (): number => Date.now() / 1000
    this.revocations = createRevocationStore(now)
    const keys = createKeySource({ load: async () => this.issuer.jwks })
    const sandboxes = { get: (id: string) => (id === sandbox.id ? sandbox : undefined), isAwaited: () => false }
    const { revocations } = this
    const auth = createAuthenticator({
      ...{ keys, revocations, sandboxes, now, issuer: () => ISSUER, thumbprint: keyThumbprint(AGENT_PUBLIC_KEY) },
    })
    this.exposed = createExposedPorts({
      ask: async (hostname) => {
        this.asked.push(hostname)
        return this.routes.get(hostname) ?? null
      },
    })
    this.#hosts = createPreviewHosts({
      ...{ exposed: this.exposed, auth, revocations, keys, now, log: quiet, trustedProxies, ...limits },
      access: createAccessJournal(createJournal(new Registry()), sandboxes),
      exchange: async (hostname, code) => {
        if (this.codes.get(code) !== hostname) throw new BoxofficeError('UNAUTHENTICATED', 'The link is used, too old, or for another host')
        this.codes.delete(code)
        return { token: await this.cookieToken(hostname), max_age_seconds: 600 }
      },
    })
    this.#server = createServer({ ...SERVER_OPTIONS, requestTimeout: 0 }, (incoming, outgoing) => {
      if (!this.#hosts.handle(incoming, outgoing)) outgoing.writeHead(421).end()
    })
    this.#server.on('upgrade', (incoming, socket, head) => {
      if (!this.#hosts.upgrade(incoming, socket, head)) socket.destroy()
    })
  }

  static async start(options: TestPreviewsOptions = {}): Promise<TestPreviews> {
    const previews = new TestPreviews(await TestSandbox.start(), options)
    previews.#server.listen(0, '127.0.0.1')
    await once(previews.#server, 'listening')
    previews.#front = await TestPreviews.front?.(previews, options.trustedProxies ?? [])
    return previews
  }

  get agentOrigin(): string {
    return `http://127.0.0.1:${this.#agentPort}`
  }

  get #agentPort(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** That of previews. */
  get port(): number {
    return this.#front?.port ?? this.#agentPort
  }

  /** Exposes a port, as the broker tells the agent; gives its host, without the port of the listener. */
  expose(port: number, fields: Partial<PreviewRoute> = {}): PreviewRoute & { hostname: string } {
    const label = labelOf(this.#labels++)
    const hostname = `${port}-${label}.localhost`
    const route: PreviewRoute = {
      ...{ label, port, url: `http://${hostname}:${this.port}`, access: 'private', host: 'localhost', embed_origins: [], expires_at: null },
      ...{ session_id: this.sandbox.sessionId, tenant_id: 'tenant', sandbox_id: this.sandbox.id, generation: 1 },
      ...fields,
    }
    this.routes.set(hostname, route)
    this.tell()
    return { ...route, hostname }
  }

  /** The agent hears all that is exposed now. */
  tell(): void {
    this.exposed.replace(this.sandbox.id, [...this.routes.values()])
  }

  cookieToken(hostname: string, claims: Partial<SessionTokenClaims> = {}): Promise<string> {
    return this.issuer.sign({ aud: previewAudience(hostname), caps: undefined, thread_id: undefined, ...claims })
  }

  async cookie(hostname: string, claims: Partial<SessionTokenClaims> = {}): Promise<string> {
    return `__Host-bx_preview=${await this.cookieToken(hostname, claims)}`
  }

  /** A request that has begun; `end` it. */
  open(hostname: string, path: string, { headers, ...options }: RequestOptions = {}) {
    return request({
      host: '127.0.0.1',
      port: this.port,
      path,
      agent: false,
      ...options,
      headers: { host: `${hostname}:${this.port}`, ...headers },
    })
  }

  async fetch(hostname: string, path = '/', options: RequestOptions & { body?: string } = {}): Promise<Answer> {
    const { body, ...rest } = options
    const sent = this.open(hostname, path, rest)
    sent.end(body)
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, headers: response.headers, raw: response.rawHeaders, body: await text(response) }
  }

  /** Bytes as they are, for what no client would send. */
  async raw(sent: string): Promise<string> {
    const socket = connect(this.port, '127.0.0.1')
    socket.write(sent)
    return text(socket)
  }

  connect(): Socket {
    return connect(this.port, '127.0.0.1')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#front?.close()
    this.#hosts.close()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    await this.sandbox[Symbol.asyncDispose]()
  }
}

/** A program that speaks HTTP on a free port of the loopback. */
export const app = async (listener: (incoming: IncomingMessage, outgoing: import('node:http').ServerResponse) => void) => {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    server,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
