import { SerialQueue } from '@boxoffice/kit/serial-queue'
import type { McpServerConfig } from '../../config/mcp-server.ts'
import type { Log } from '../../host/log.ts'
import type { SecretKeys } from '../../host/secret-keys.ts'
import type { McpServerRow, McpServerStore } from '../../store/mcp-server-store.ts'
import type { SharedHost } from './leased-host.ts'
import { MAX_SERVERS, noServer } from './mcp-servers.ts'
import { openDefinition } from './peers/definitions.ts'

/** A server of the database, and its definition in the clear. */
export type Known = { row: McpServerRow; config: McpServerConfig }

export type KnownServersOptions = {
  store: Pick<McpServerStore, 'list' | 'find'>
  secrets: SecretKeys
  host: Pick<SharedHost, 'join' | 'part'>
  log: Log
}

/** The servers of the database as they were last read. */
export class KnownServers {
  readonly #options: KnownServersOptions
  #known: ReadonlyMap<string, Known> = new Map()
  readonly #reads = new SerialQueue()
  readonly #warned = new Set<string>()

  constructor(options: KnownServersOptions) {
    this.#options = options
  }

  all(): Known[] {
    return [...this.#known.values()]
  }

  get(name: string): Known | undefined {
    return this.#known.get(name)
  }

  /** Reads them all, and tells the host of them. */
  refresh(): Promise<void> {
    return this.#reads.run(async () => {
      const { store, host } = this.#options
      const before = this.#known
      const known = new Map<string, Known>()
      for (const row of await store.list()) {
        const config = this.#open(row)
        if (config !== undefined) known.set(row.name, { row, config })
      }
      this.#known = known
      for (const [name, { config, row }] of before) if (!row.isEnding && !isSame(known.get(name), config)) host.part(config)
      for (const { config, row } of known.values()) if (!row.isEnding) host.join(config)
    })
  }

  /** Reads one of them. */
  async find(name: string): Promise<Known | undefined> {
    const row = await this.#options.store.find(name)
    const config = row && this.#open(row)
    return row && config && { row, config }
  }

  /** The same; throws where there is none that is to stay. */
  async require(name: string): Promise<Known> {
    const known = await this.find(name)
    return known === undefined || known.row.isEnding ? noServer(name) : known
  }

  /** Undefined for one that does not open: it does not count. */
  #open(row: McpServerRow): McpServerConfig | undefined {
    const known = this.#known.get(row.name)
    if (known?.row.sealed === row.sealed && known.row.kekId === row.kekId) return known.config
    try {
      return openDefinition(this.#options.secrets, row)
    } catch (thrown) {
      if (!this.#warned.has(row.sealed)) {
        const names = { mcp_server: row.name.slice(0, 100), kek_id: row.kekId.slice(0, 64) }
        this.#options.log.warn({ ...names, why: (thrown as Error).message }, 'an MCP server of the database does not count')
        if (this.#warned.size < MAX_SERVERS * 4) this.#warned.add(row.sealed)
      }
      return undefined
    }
  }
}

export const isSame = (known: Known | undefined, config: McpServerConfig): boolean =>
  known !== undefined && JSON.stringify(known.config) === JSON.stringify(config)
