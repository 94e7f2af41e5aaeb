import { randomUUID } from 'node:crypto'
import { posix } from 'node:path'
import { BoxofficeError } from '@boxoffice/protocol'
import { Credential } from '../../access/credential.ts'
import { type Principal, ROOT_TENANT } from '../../access/principals.ts'
import { type AgentClient, AgentUnreachable } from '../../agents/agent-client.ts'
import type { Placement } from '../../agents/placement.ts'
import type { McpServerConfig } from '../../config/mcp-server.ts'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Origin } from '../../domain/audit-entry.ts'
import type { Session } from '../../domain/session.ts'
import type { Log } from '../../host/log.ts'
import { internalRequest, type NegotiateRequest } from '../../sessions/negotiate-request.ts'
import type { SessionService } from '../../sessions/service.ts'
import type { AgentRecord, Store } from '../../store/store.ts'
import type { McpHost, ServerBox } from './host.ts'
import type { SharedHost } from './leased-host.ts'
import { McpServerError, messageOf } from './phases.ts'
import { installCommand } from './sandbox/dependencies.ts'
import { rewriteInvocation } from './sandbox/host-path.ts'
import { type Around, sandboxOf, warningsOf } from './sandbox/payload.ts'
import { directoryOf, hostPathOf, placeOf } from './sandbox/placement.ts'

export type BoxHostOptions = {
  sessions: SessionService
  dataplane: DataplaneClient
  placement: Pick<Placement, 'choose'>
  client: Pick<AgentClient, 'list'>
  store: Pick<Store, 'agents' | 'scopes' | 'sessions'>
  /** Whether servers may run where nothing isolates them [2-81]. */
  hostFallback: boolean
  log: Log
}

/** Who owns the sessions of MCP servers: the broker itself. */
const OWNER: Principal = {
  id: 'boxoffice:mcp',
  tenant: ROOT_TENANT,
  role: 'operator',
  rights: new Set(),
  actorType: 'agent',
  capabilities: null,
  credential: new Credential('', 'authorization'),
}

/** MCP servers in ordinary sessions: a thread for each pipeline, a managed process for each server [0-40..0-43]. */
export class BoxHost implements SharedHost {
  readonly #options: BoxHostOptions
  /** Who lives in a sandbox, by the id of its thread. */
  readonly #groups = new Map<string, Map<string, McpServerConfig>>()

  constructor(options: BoxHostOptions) {
    this.#options = options
  }

  join(config: McpServerConfig): void {
    const { sessionId } = placeOf(config)
    const group = this.#groups.get(sessionId) ?? new Map<string, McpServerConfig>()
    this.#groups.set(sessionId, group.set(config.name, config))
  }

  part(config: McpServerConfig): void {
    this.#groups.get(placeOf(config).sessionId)?.delete(config.name)
  }

  async leave(config: McpServerConfig): Promise<void> {
    const { sessionId } = placeOf(config)
    const group = this.#groups.get(sessionId)
    group?.delete(config.name)
    if (group === undefined || group.size > 0) return
    this.#groups.delete(sessionId)
    const live = await this.#options.store.sessions.live(ROOT_TENANT, { type: 'thread', id: sessionId })
    if (live?.createdBy === OWNER.id) await this.#release(live)
  }

  async open(config: McpServerConfig, signal: AbortSignal): Promise<ServerBox> {
    const agent = await this.#available(config)
    // Agents of before do not say.
    const { isolation, capabilities, reserved } = agent.provider
    const around = {
      isolation: isolation ?? 'none',
      network: capabilities?.network ?? true,
      egress: capabilities?.egress ?? false,
      reserved,
    }
    const { sessionId } = placeOf(config)
    // Before and after: a sandbox of somebody else's is not even given the servers' files.
    await this.#requireOwn(sessionId)
    await this.#settleOn(agent, sessionId)
    const { session } = await this.#options.sessions.negotiate(OWNER, this.#request(config, around, signal), newOrigin())
    await this.#requireOwn(sessionId)
    return { sessionId: session.id, isolation: around.isolation, warnings: warningsOf(config, around) }
  }

  async install(config: McpServerConfig, box: ServerBox, signal: AbortSignal): Promise<void> {
    if (box.isolation === 'none' || hostPathOf(config) === null) return
    const dataplane = this.#options.dataplane.session(box.sessionId)
    const directory = directoryOf(config.name)
    const { files } = await dataplane.files.list({ path: directory, depth: 1, limit: MAX_FILES }, { signal })
    const names = files.map(({ path }) => posix.basename(path))
    const command = installCommand(names, directory, config.name)
    if (command === null) return
    const result = await dataplane.exec(
      { command, timeout_seconds: config.box.startup_timeout_sec, env: environmentOf(config), cwd: '/workspace' },
      { signal },
    )
    if (result.exit_code === 0) return
    const said = (result.stderr.trim() || result.stdout.trim()).slice(-1000)
    throw new McpServerError('dep_install', `the dependencies were not installed (exit code ${result.exit_code}): ${said}`)
  }

  async start(config: McpServerConfig, box: ServerBox, signal: AbortSignal): Promise<void> {
    const dataplane = this.#options.dataplane.session(box.sessionId)
    const isBoxed = box.isolation !== 'none'
    const hostPath = isBoxed ? hostPathOf(config) : null
    const directory = directoryOf(config.name)
    const relative = directory.slice('/workspace/'.length)
    // What is mounted is there already, and perhaps nothing can be made in it.
    if (hostPath === null) await dataplane.files.mkdir(relative, { signal })
    const { command, args } = isBoxed ? rewriteInvocation(config, hostPath, directory) : config
    const record = await dataplane.processes.start(
      {
        process_id: config.name,
        command,
        args: [...args],
        env: environmentOf(config),
        cwd: isBoxed ? directory : relative,
        replace: true,
        restart: 'never',
      },
      { signal },
    )
    if (record.spawn_error !== null) throw new McpServerError('process_start', `${command}: ${record.spawn_error.message}`)
  }

  attach: McpHost['attach'] = (config, { sessionId }, handlers, signal) =>
    this.#options.dataplane.session(sessionId).processes.attach(config.name, handlers, { takeover: true, signal })

  process: McpHost['process'] = (config, { sessionId }) => this.#options.dataplane.session(sessionId).processes.get(config.name)

  stop: McpHost['stop'] = (config, { sessionId }) => this.#options.dataplane.session(sessionId).processes.stop(config.name)

  /** The agent of a sandbox that is made now; `box_unavailable` when there is none, or none that may be used [2-81]. */
  async #available(config: McpServerConfig): Promise<AgentRecord> {
    const { hostFallback, log } = this.#options
    const agent = await this.#reachable().catch(async (thrown: unknown) => {
      const substitute = hostFallback ? await this.#substitute(config) : undefined
      return substitute ?? Promise.reject(unavailable(messageOf(thrown)))
    })
    const isolation = agent.provider.isolation ?? 'none'
    if (isolation !== 'none') return agent
    if (!hostFallback) throw unavailable('no provider isolates here, and mcp.host_fallback is off')
    log.warn({ mcp_server: config.name, isolation }, 'an MCP server runs on the host without isolation, as mcp.host_fallback allows')
    return agent
  }

  /** The agent that is there for MCP servers while no engine answers; undefined for a server that needs an engine. */
  async #substitute({ box }: McpServerConfig): Promise<AgentRecord | undefined> {
    const agent = await this.#options.placement.choose({ reserved: 'mcp' }).catch(() => undefined)
    const capabilities = agent?.provider.capabilities
    const needsEngine =
      (box.image !== null && capabilities?.images === false) ||
      (box.network === 'on' && capabilities?.network === false && capabilities.egress !== true)
    return needsEngine ? undefined : agent
  }

  /**
   * Moves the sandbox of the servers to an agent for everything, once there is one: the next `negotiate` makes it there. The other way
   * round it stays where it is, and is waited for.
   */
  async #settleOn(agent: AgentRecord, sessionId: string): Promise<void> {
    const { store } = this.#options
    const live = await store.sessions.live(ROOT_TENANT, { type: 'thread', id: sessionId })
    if (live === undefined || live.agentId === agent.id) return
    const isReserved = (await store.agents.byId(live.agentId))?.provider.reserved !== undefined
    if (isReserved === (agent.provider.reserved !== undefined)) return
    if (!isReserved) throw unavailable(`the sandbox of thread ${sessionId} is with an engine that does not answer`)
    await this.#release(live)
  }

  /** Ends a sandbox with all servers in it. */
  async #release({ id }: Session): Promise<void> {
    await this.#options.sessions.release(OWNER, id, { keepWorkspace: false }, newOrigin()).catch((thrown: unknown) => {
      // It has ended by itself.
      if (!(thrown instanceof BoxofficeError) || thrown.status >= 500) throw thrown
    })
  }

  /** One that went a moment ago counts as there until its heartbeats are missed: asked for a sandbox, it would cost a retry [2-90]. */
  async #reachable(): Promise<AgentRecord> {
    const { placement, client } = this.#options
    const agent = await placement.choose()
    const gone = await client.list(agent).then(
      () => undefined,
      (thrown: unknown) => (thrown instanceof AgentUnreachable ? thrown : undefined),
    )
    if (gone === undefined) return agent
    // Another one may do; where there is none, this one says why.
    return placement.choose({ except: new Set([agent.id]) }).catch(() => {
      throw gone
    })
  }

  /** Whoever was first with the thread's name would have the servers, and what they know, in a sandbox of theirs. */
  async #requireOwn(id: string): Promise<void> {
    const { owner } = await this.#options.store.scopes.ownership(ROOT_TENANT, { type: 'thread', id })
    if (owner !== null && owner !== OWNER.id)
      throw new McpServerError(
        'session_create',
        `thread ${id} belongs to somebody else; delete it first (DELETE /v1/sandbox/threads/${id})`,
      )
  }

  #request(config: McpServerConfig, around: Around, signal: AbortSignal): NegotiateRequest {
    const { sessionId } = placeOf(config)
    const overrides = sandboxOf(config, this.#groups.get(sessionId)?.values() ?? [], around)
    return internalRequest(sessionId, {
      mode: 'ensure',
      profile: 'default',
      overrides,
      labels: { surface: 'mcp' },
      needsImage: config.box.image !== null,
      reserved: around.reserved,
      wait: signal.aborted ? 0 : Math.ceil(config.box.startup_timeout_sec),
    })
  }
}

const MAX_FILES = 1000

const environmentOf = ({ env, box }: McpServerConfig): Record<string, string> => ({ ...env, ...box.env })

const newOrigin = (): Origin => ({
  requestId: `req_${randomUUID()}`,
  tenant: ROOT_TENANT,
  caller: OWNER.id,
  actor: OWNER.id,
  ip: null,
})

const unavailable = (message: string): McpServerError =>
  new McpServerError('session_create', `box_unavailable: ${message}`, { reason: 'box_unavailable' })
