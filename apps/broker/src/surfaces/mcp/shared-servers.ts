import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError } from '@boxoffice/protocol'
import type { McpServerConfig } from '../../config/mcp-server.ts'
import type { Log } from '../../host/log.ts'
import type { SecretKeys } from '../../host/secret-keys.ts'
import type { McpLease, McpReport, McpServerRow, McpServerStore } from '../../store/mcp-server-store.ts'
import { answerAt } from './endpoint.ts'
import { Forwards } from './forwards.ts'
import { isSame, type Known, KnownServers } from './known-servers.ts'
import { leasedHost, type SharedHost } from './leased-host.ts'
import { MAX_SERVERS } from './mcp-servers.ts'
import { openOwnerUrl, sealDefinition, sealOwnerUrl } from './peers/definitions.ts'
import type { ForPeers } from './peers/peer-app.ts'
import type { Peer, PeerClient } from './peers/peer-client.ts'
import type { RuntimeInfo } from './runtime-info.ts'
import { placeOf } from './sandbox/placement.ts'
import type { Clock } from './schedule.ts'
import { McpServerRuntime } from './server-runtime.ts'
import { type Located, type Servers, type ServerView, viewOf } from './servers.ts'

export type SharedServersOptions = {
  store: McpServerStore
  secrets: SecretKeys
  host: SharedHost
  peers: Pick<PeerClient, 'forward' | 'begin' | 'end'>
  brokerId: string
  /** Where other brokers reach this one; undefined: it runs no servers, as nobody could ask it. */
  url: string | undefined
  /** Of the settings, which are the same for all brokers; they cannot be taken away at run time. */
  configured: readonly McpServerConfig[]
  leaseMs: number
  /** What the first attempt of each waits for; undefined: nothing. */
  after: Promise<void> | undefined
  clock: Clock
  log: Log
}

/** What an owner tells of a server. */
type Told = { info: RuntimeInfo; isolation: string | null }

/** How often an owner prolongs its leases, and all look for servers that nobody has, in a lease. */
const ROUNDS = 4
const POLL_MS = 200

/**
 * The MCP servers of all brokers of a database. Each runs in the one broker that has its lease, which another takes over when it runs out;
 * requests for it are passed on to that one.
 */
export class SharedMcpServers implements Servers, ForPeers {
  readonly #options: SharedServersOptions
  readonly #lease: McpLease | undefined
  readonly #known: KnownServers
  readonly #forwards: Forwards
  readonly #runtimes = new Map<string, McpServerRuntime>()
  /** Until when this broker has a server at least, by its own clock, which began before the database's did. */
  readonly #until = new Map<string, number>()
  readonly #changes = new KeyedQueue()
  readonly #closing = new AbortController()
  #isConfigured = false
  #loop: Promise<void> = Promise.resolve()

  constructor(options: SharedServersOptions) {
    this.#options = options
    this.#known = new KnownServers(options)
    this.#forwards = new Forwards(options.peers, this.#closing.signal)
    const { secrets, brokerId, url, leaseMs } = options
    this.#lease = url === undefined ? undefined : { owner: brokerId, ownerUrl: sealOwnerUrl(secrets, brokerId, url), leaseMs }
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** Leaves processes and sandboxes to the broker that takes over. */
  async close(): Promise<void> {
    const { store, brokerId, log } = this.#options
    this.#closing.abort()
    await this.#loop
    await Promise.all([...this.#runtimes.values()].map((runtime) => runtime.stop(true)))
    await store.release(brokerId).catch((thrown: unknown) => log.warn({ err: thrown }, 'MCP servers wait until their lease runs out'))
  }

  async list(): Promise<ServerView[]> {
    await this.refresh()
    return this.#known
      .all()
      .filter(({ row }) => !row.isEnding)
      .map((known) => this.#viewOf(known))
  }

  async get(name: string): Promise<ServerView> {
    return this.#viewOf(await this.#known.require(name))
  }

  async settled(name: string, ms: number): Promise<ServerView> {
    const { clock, leaseMs } = this.#options
    const { signal } = this.#closing
    const until = clock.now() + ms
    const own = this.#runtimes.get(name)
    if (own !== undefined) {
      await withTimeout(own.ready, ms, () => undefined)
      // The others hear of it a moment sooner.
      await this.#report([name]).catch(() => {})
      return viewOf(own)
    }
    for (;;) {
      const view = await this.get(name)
      const isUnderWay = view.info.status === 'starting' || view.info.status === 'retrying'
      if (!isUnderWay || clock.now() >= until || signal.aborted) return view
      await clock.sleep(Math.min(POLL_MS, leaseMs), signal)
    }
  }

  add(config: McpServerConfig): Promise<{ isNew: boolean }> {
    const { name } = config
    return this.#change(name, async () => {
      const { store, secrets, clock } = this.#options
      const asked = clock.now()
      const outcome = await store.add(sealDefinition(secrets, config), this.#lease ?? null, MAX_SERVERS)
      if (outcome === 'full')
        throw new BoxofficeError('RATE_LIMITED', `there are ${MAX_SERVERS} MCP servers; delete some`, { details: { limit: 'mcp_servers' } })
      if (outcome === 'added') {
        await this.refresh()
        if (this.#lease !== undefined) this.#begin(name, asked)
        return { isNew: true }
      }
      const known = await this.#known.find(name)
      if (known === undefined || known.row.isEnding)
        throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the MCP server of that name is being ended; try again', { retryAfter: 1 })
      if (JSON.stringify(known.config) !== JSON.stringify(config))
        throw new BoxofficeError('BINDING_CONFLICT', `name: there is another MCP server "${name}"; delete it first`, {
          details: { field: 'name' },
        })
      await this.#atOwner(
        name,
        () => this.#beginAgain(name),
        (peer) => this.#options.peers.begin(peer, name),
      )
      return { isNew: false }
    })
  }

  remove(name: string): Promise<void> {
    return this.#change(name, async () => {
      const { row } = await this.#known.require(name)
      if (row.isConfigured)
        throw new BoxofficeError('BINDING_CONFLICT', `MCP server "${name}" is in the settings (mcp_servers); take it out there`)
      await this.#atOwner(
        name,
        () => this.#end(name),
        (peer) => this.#options.peers.end(peer, name),
      )
    })
  }

  async locate(name: string): Promise<Located | undefined> {
    const known = await this.#known.find(name)
    if (known === undefined || known.row.isEnding) return undefined
    const { row } = known
    const runtime = this.#runtimeOf(name)
    const sessionId = runtime?.box?.sessionId ?? row.sessionId ?? undefined
    const peer = runtime === undefined ? this.#peerOf(row) : undefined
    const forward = peer && ((request: Request) => this.#forwards.send(peer, name, sessionId ?? '', request))
    return { sessionId, runtime, forward }
  }

  // For other brokers.

  async serve(name: string, sid: string | null, request: Request): Promise<Response> {
    const runtime = this.#runtimeOf(name)
    if (runtime === undefined || runtime.box === null || runtime.box.sessionId !== sid) throw elsewhere()
    return answerAt(runtime, request)
  }

  begin(name: string): Promise<void> {
    return this.#change(name, async () => {
      if (!this.#holds(name)) throw elsewhere()
      await this.#beginAgain(name)
    })
  }

  end(name: string): Promise<void> {
    return this.#change(name, async () => {
      if (!this.#holds(name)) throw elsewhere()
      await this.#end(name)
    })
  }

  /** Reads the servers; requests to brokers that have lost theirs end. */
  async refresh(): Promise<void> {
    await this.#known.refresh()
    this.#forwards.follow((name) => this.#known.get(name)?.row)
  }

  async #run(): Promise<void> {
    const { clock, leaseMs, log } = this.#options
    const { signal } = this.#closing
    let said = ''
    while (!signal.aborted) {
      try {
        await this.#round()
        said = ''
      } catch (thrown) {
        const message = (thrown as Error).message
        if (message !== said) log.warn({ err: thrown }, 'the MCP servers of the database cannot be looked after')
        said = message
      }
      await clock.sleep(leaseMs / ROUNDS, signal)
    }
  }

  async #round(): Promise<void> {
    if (!this.#isConfigured) await this.#configure()
    await this.#report([...this.#until.keys()])
    await this.refresh()
    for (const name of this.#until.keys()) this.#follow(name)
    const free = this.#known
      .all()
      .filter(({ row }) => !row.isHeld)
      .map(({ row }) => row.name)
    await this.#claim(free)
  }

  /** The settings of the broker that has started last count for all. */
  async #configure(): Promise<void> {
    const { store, secrets, configured } = this.#options
    await this.refresh()
    for (const config of configured) {
      const known = this.#known.get(config.name)
      if (known?.row.isConfigured && !known.row.isEnding && isSame(known, config)) continue
      await store.configure(sealDefinition(secrets, config))
    }
    const names = new Set(configured.map(({ name }) => name))
    const gone = this.#known.all().filter(({ row }) => row.isConfigured && !names.has(row.name))
    if (gone.length > 0) await store.end(gone.map(({ row }) => row.name))
    this.#isConfigured = true
  }

  /** Prolongs the leases of servers that this broker has, and tells of them. Those that it has no more are let go. */
  async #report(names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    const { store, brokerId, leaseMs, clock } = this.#options
    const asked = clock.now()
    const held = new Set(
      await store.renew(
        brokerId,
        leaseMs,
        names.map((name) => reportOf(name, this.#runtimes.get(name))),
      ),
    )
    for (const name of names) {
      if (held.has(name)) this.#until.set(name, asked + leaseMs)
      else if ((this.#until.get(name) ?? asked) <= asked + leaseMs) this.#lose(name)
    }
  }

  /** Takes over what nobody has. */
  async #claim(names: readonly string[]): Promise<readonly string[]> {
    if (this.#lease === undefined || names.length === 0) return []
    const asked = this.#options.clock.now()
    const claimed = await this.#options.store.claim(names, this.#lease)
    for (const name of claimed) this.#begin(name, asked)
    return claimed
  }

  /** A server is this broker's from `asked` on. */
  #begin(name: string, asked: number): void {
    const known = this.#known.get(name)
    this.#until.set(name, asked + this.#options.leaseMs)
    if (known === undefined) return
    if (known.row.isEnding) this.#follow(name)
    else this.#make(known.config)
  }

  /** Does what another broker has written of a server that this one has: it is to end, or has another definition. */
  #follow(name: string): void {
    const known = this.#known.get(name)
    const runtime = this.#runtimes.get(name)
    if (known === undefined || this.#changes.unfinished(name) > 0) return
    const isOther = runtime !== undefined && !isSame(known, runtime.config)
    const work = known.row.isEnding ? () => this.#end(name) : isOther ? () => this.#replace(name) : undefined
    if (work === undefined) return
    this.#change(name, work).catch((thrown: unknown) => this.#options.log.warn({ err: thrown }, 'an MCP server is not as it should be yet'))
  }

  #make(config: McpServerConfig): void {
    const { clock, log, after } = this.#options
    const host = leasedHost(this.#options.host, { holds: (name) => this.#holds(name), refresh: () => this.refresh() })
    const runtime = new McpServerRuntime({ config, host, clock, log, after })
    const earlier = this.#runtimes.get(config.name)
    this.#runtimes.set(config.name, runtime)
    void (earlier?.stop(true) ?? Promise.resolve()).then(() => runtime.start())
  }

  /** The same once more, if it has given up. */
  async #beginAgain(name: string): Promise<void> {
    const { config } = await this.#known.require(name)
    if (this.#runtimes.get(name)?.info().status !== 'error') return
    this.#make(config)
    await this.#report([name])
  }

  /** Its definition has changed. */
  async #replace(name: string): Promise<void> {
    const [runtime, known] = [this.#runtimes.get(name), this.#known.get(name)]
    if (runtime === undefined || known === undefined || isSame(known, runtime.config)) return
    await runtime.stop(false)
    this.#options.host.join(known.config)
    if (this.#holds(name)) this.#make(known.config)
  }

  /** Ends a server that is this broker's. Until its row is gone another broker can finish what this one leaves. */
  async #end(name: string): Promise<void> {
    const { store, brokerId, host } = this.#options
    const known = await this.#known.find(name)
    if (known === undefined) return
    await store.end([name])
    const { config, row } = known
    const runtime = this.#runtimes.get(name)
    this.#runtimes.delete(name)
    if (runtime !== undefined) await runtime.stop(false)
    else {
      await this.refresh()
      if (row.sessionId !== null)
        await host.stop(config, { sessionId: row.sessionId, isolation: 'none', warnings: [] }).catch((thrown: unknown) => {
          // Its sandbox has ended.
          if (!(thrown instanceof BoxofficeError) || thrown.status >= 500) throw thrown
        })
      host.join(config)
      await host.leave(config)
    }
    await store.remove(name, brokerId)
    this.#until.delete(name)
    await this.refresh()
  }

  #lose(name: string): void {
    const runtime = this.#runtimes.get(name)
    this.#until.delete(name)
    this.#runtimes.delete(name)
    if (runtime === undefined) return
    this.#options.log.warn({ mcp_server: name }, 'another broker runs this MCP server now')
    void runtime.stop(true)
  }

  /** Does it here, or at the broker that has the server. */
  async #atOwner(name: string, here: () => Promise<void>, there: (peer: Peer) => Promise<void>): Promise<void> {
    if (this.#holds(name)) return here()
    const { row } = await this.#known.require(name)
    const peer = this.#peerOf(row)
    if (peer !== undefined) return there(peer)
    await this.refresh()
    if (!row.isHeld && (await this.#claim([name])).includes(name)) return here()
    throw elsewhere()
  }

  #holds(name: string): boolean {
    return (this.#until.get(name) ?? Number.NEGATIVE_INFINITY) > this.#options.clock.now()
  }

  #runtimeOf(name: string): McpServerRuntime | undefined {
    return this.#holds(name) ? this.#runtimes.get(name) : undefined
  }

  /** The other broker that has it. */
  #peerOf(row: McpServerRow): Peer | undefined {
    const { brokerId, secrets } = this.#options
    const url = openOwnerUrl(secrets, row)
    return row.isHeld && row.owner !== null && row.owner !== brokerId && url !== undefined ? { id: row.owner, url } : undefined
  }

  #viewOf({ row, config }: Known): ServerView {
    const runtime = this.#runtimeOf(row.name)
    if (runtime !== undefined) return viewOf(runtime)
    const told = row.info === null ? undefined : (JSON.parse(row.info) as Told)
    const info = told?.info ?? unstarted(config)
    const box = row.sessionId === null ? null : { sessionId: row.sessionId, isolation: told?.isolation ?? 'none' }
    return {
      name: row.name,
      pipelineUuid: config.pipeline_uuid,
      info: row.isHeld || told === undefined ? info : { ...info, ...ABANDONED },
      box,
    }
  }

  /** One change of a name after the other. */
  #change<T>(name: string, work: () => Promise<T>): Promise<T> {
    if (this.#closing.signal.aborted)
      return Promise.reject(new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker is stopping; try again', { retryAfter: 2 }))
    return this.#changes.run(name, work)
  }
}

function reportOf(name: string, runtime: McpServerRuntime | undefined): McpReport {
  if (runtime === undefined) return { name, info: null, sessionId: null }
  const told: Told = { info: runtime.info(), isolation: runtime.box?.isolation ?? null }
  return { name, info: JSON.stringify(told), sessionId: runtime.box?.sessionId ?? null }
}

const unstarted = (config: McpServerConfig): RuntimeInfo => ({
  status: 'starting',
  error_message: null,
  error_phase: null,
  retry_count: 0,
  tool_count: 0,
  tools: [],
  box_session_id: placeOf(config).sessionId,
  box_enabled: true,
  warnings: [],
})

/** Of a server whose broker has gone. */
const ABANDONED = { status: 'starting', error_message: null, error_phase: null, tool_count: 0, tools: [] } as const

const elsewhere = (): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the MCP server is being taken over by another broker; try again', { retryAfter: 2 })
