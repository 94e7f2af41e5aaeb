import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import { BoxofficeError } from '@boxoffice/protocol'
import { McpServerConfig } from '../../config/mcp-server.ts'
import type { Log } from '../../host/log.ts'
import type { McpHost } from './host.ts'
import { placeOf } from './sandbox/placement.ts'
import type { Clock } from './schedule.ts'
import { McpServerRuntime } from './server-runtime.ts'

export type McpServersOptions = {
  host: McpHost
  /** Of the settings file; they cannot be taken away at run time. */
  configured: readonly McpServerConfig[]
  /** Those that were added at run time, over restarts. */
  kept: KeptServers
  /** There are other brokers on the data directory: none of them has servers. */
  isShared: boolean
  /** What the first attempt of each waits for; undefined: nothing. */
  after: Promise<void> | undefined
  clock: Clock
  log: Log
}

export interface KeptServers {
  read(): readonly unknown[]
  write(servers: readonly McpServerConfig[]): void
}

export const MAX_SERVERS = 256

/** The MCP servers of this broker: which there are, and their lives. */
export class McpServers {
  readonly #options: McpServersOptions
  readonly #runtimes = new Map<string, McpServerRuntime>()
  readonly #changes = new KeyedQueue()
  #isClosed = false

  constructor(options: McpServersOptions) {
    this.#options = options
  }

  /** Begins with those that are known [0-44]. All of them are, before the first sandbox is made: it shows the files of each. */
  start(): void {
    const { configured, kept, isShared, log } = this.#options
    if (isShared) return
    const added = kept.read().flatMap((one) => {
      const { data, error } = McpServerConfig.safeParse(one)
      if (data === undefined) log.warn({ err: error }, 'an MCP server that was added at run time is not valid any more')
      return data ?? []
    })
    for (const config of [...configured, ...added]) if (!this.#runtimes.has(config.name)) this.#make(config)
    for (const runtime of this.#runtimes.values()) if (placeOf(runtime.config).startsAt === 'boot') runtime.start()
  }

  list(): McpServerRuntime[] {
    return [...this.#runtimes.values()]
  }

  find(name: string): McpServerRuntime | undefined {
    return this.#runtimes.get(name)
  }

  get(name: string): McpServerRuntime {
    return this.find(name) ?? noServer(name)
  }

  /** Adds one and starts it. The same one again is left alone while it lives, and begins anew when it has given up. */
  add(config: McpServerConfig): Promise<{ runtime: McpServerRuntime; isNew: boolean }> {
    if (this.#options.isShared)
      throw new BoxofficeError(
        'UNSUPPORTED',
        'brokers that share a data directory (--shared-data-dir) run no MCP servers; use one with a directory of its own, or PostgreSQL',
      )
    return this.#change(config.name, async () => {
      const known = this.#runtimes.get(config.name)
      if (known !== undefined && JSON.stringify(known.config) !== JSON.stringify(config))
        throw new BoxofficeError('BINDING_CONFLICT', `name: there is another MCP server "${config.name}"; delete it first`, {
          details: { field: 'name' },
        })
      if (known !== undefined && known.info().status !== 'error') return { runtime: known, isNew: false }
      if (known === undefined && this.#runtimes.size >= MAX_SERVERS)
        throw new BoxofficeError('RATE_LIMITED', `there are ${MAX_SERVERS} MCP servers; delete some`, { details: { limit: 'mcp_servers' } })
      this.#keep([...this.#others(config.name), config])
      const runtime = this.#make(config)
      runtime.start()
      return { runtime, isNew: true }
    })
  }

  /** Ends one with its process, and with its sandbox if it was the last one there. */
  remove(name: string): Promise<void> {
    return this.#change(name, async () => {
      const runtime = this.get(name)
      if (this.#options.configured.some((config) => config.name === name))
        throw new BoxofficeError('BINDING_CONFLICT', `MCP server "${name}" is in the settings (mcp_servers); take it out there`)
      this.#keep(this.#others(name))
      this.#runtimes.delete(name)
      await runtime.stop(false)
    })
  }

  /** Leaves processes and sandboxes for the next start. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.list().map((runtime) => runtime.stop(true)))
  }

  #make(config: McpServerConfig): McpServerRuntime {
    const { host, clock, log, after } = this.#options
    const runtime = new McpServerRuntime({ config, host, clock, log, after })
    host.join(config)
    this.#runtimes.set(config.name, runtime)
    return runtime
  }

  #others(name: string): McpServerConfig[] {
    return this.list().flatMap(({ config }) => (config.name === name ? [] : [config]))
  }

  /** Before the change itself: what cannot be written has changed nothing. */
  #keep(configs: readonly McpServerConfig[]): void {
    const fixed = new Set(this.#options.configured.map(({ name }) => name))
    this.#options.kept.write(configs.filter(({ name }) => !fixed.has(name)))
  }

  /** One change of a name after the other. */
  #change<T>(name: string, work: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker is stopping; try again', { retryAfter: 2 })
    return this.#changes.run(name, work)
  }
}

export const noServer = (name: string): never => {
  throw new BoxofficeError('NOT_FOUND', `there is no MCP server "${name.slice(0, 100)}"; GET /v1/mcp/servers lists them`)
}
