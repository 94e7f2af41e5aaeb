import { once } from 'node:events'
import { VERSION } from '@boxoffice/kit/version'
import { BoxofficeError } from '@boxoffice/protocol'
import { Client, type Implementation, type ServerCapabilities } from '@modelcontextprotocol/client'
import type { McpServerConfig } from '../../config/mcp-server.ts'
import type { Log } from '../../host/log.ts'
import type { McpHost, ServerBox } from './host.ts'
import { LineTransport } from './line-transport.ts'
import { type ErrorPhase, inPhase, McpServerError, messageOf } from './phases.ts'
import { type RuntimeInfo, redact, type ServerStatus, type ToolSummary } from './runtime-info.ts'
import { placeOf } from './sandbox/placement.ts'
import { type Clock, COLD_START_RETRY_MS, HEALTH_POLL_MS, lastFailure, retryDelayMs, STEADY_AFTER_MS } from './schedule.ts'

export type RuntimeOptions = {
  config: McpServerConfig
  host: McpHost
  clock: Clock
  log: Log
  /** What its first attempt waits for; undefined: nothing. */
  after?: Promise<void> | undefined
}

/** A server that responses: what it says of itself, and the client to ask it with. */
export type Connected = {
  client: Client
  box: ServerBox
  serverInfo: Implementation
  capabilities: ServerCapabilities
  instructions: string | undefined
}

/** A handshake that is not answered is begun anew after this: what read the first one was not the server yet. */
const HANDSHAKE_MS = 10_000
const MAX_TOOL_PAGES = 100

/** The life of one stdio server: sandbox, dependencies, process, handshake, then its health, and all that again when it fails. */
export class McpServerRuntime {
  readonly config: McpServerConfig
  readonly #options: RuntimeOptions
  readonly #ending = new AbortController()
  readonly #ready = Promise.withResolvers<void>()
  #life: Promise<void> = Promise.resolve()
  #keep = false
  #status: ServerStatus = 'starting'
  #error: { phase: ErrorPhase; message: string } | null = null
  #retryCount = 0
  #tools: readonly ToolSummary[] = []
  #box: ServerBox | null = null
  #connected: Connected | undefined
  #connectedAt = 0

  constructor(options: RuntimeOptions) {
    this.config = options.config
    this.#options = options
  }

  /** Resolves when it works for the first time, or is known not to [2-91]. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  /** Undefined while it cannot be asked anything. */
  get connected(): Connected | undefined {
    return this.#connected
  }

  /** The sandbox that it was given last. */
  get box(): ServerBox | null {
    return this.#box
  }

  info(): RuntimeInfo {
    return {
      status: this.#status,
      error_message: this.#error?.message ?? null,
      error_phase: this.#error?.phase ?? null,
      retry_count: this.#retryCount,
      tool_count: this.#tools.length,
      tools: this.#tools,
      box_session_id: placeOf(this.config).sessionId,
      box_enabled: this.#box === null || this.#box.isolation !== 'none',
      warnings: this.#box?.warnings ?? [],
    }
  }

  start(): void {
    this.#life = this.#run()
  }

  /** Ends it and what it made; with `keep` process and sandbox stay for the next broker. */
  async stop(keep: boolean): Promise<void> {
    this.#keep = keep
    this.#ending.abort()
    await this.#life
  }

  /** What became of a tool call: the last failure is told until one succeeds [2-89]. */
  toolCalled(failure?: unknown): void {
    if (failure !== undefined) this.#note(new McpServerError('tool_call', messageOf(failure)))
    else if (this.#error?.phase === 'tool_call') this.#error = null
  }

  async #run(): Promise<void> {
    const { config, host, clock, log, after } = this.#options
    const { signal } = this.#ending
    let failed = 0
    try {
      if (after !== undefined && !signal.aborted) await Promise.race([after, once(signal, 'abort')])
      while (!signal.aborted) {
        try {
          this.#connectedAt = 0
          await this.#serve(signal)
        } catch (thrown) {
          if (signal.aborted) break
          const error = asServerError(thrown)
          const before = this.#error?.message
          this.#note(error)
          // A server that waits for a provider fails the same way every two seconds: one line says so.
          const level = this.#error?.message === before ? 'debug' : 'warn'
          log[level]({ mcp_server: config.name, phase: error.phase, err: error.cause }, `MCP server failed: ${this.#error?.message}`)
          if (error.reason === 'box_unavailable') {
            this.#status = 'unavailable'
            this.#ready.resolve()
            await clock.sleep(COLD_START_RETRY_MS, signal)
            continue
          }
          if (this.#connectedAt > 0 && clock.now() - this.#connectedAt >= STEADY_AFTER_MS) failed = 0
          failed += 1
          const delay = retryDelayMs(failed)
          if (delay === null) {
            this.#status = 'error'
            this.#error = { phase: error.phase, message: lastFailure(this.#error?.message ?? '') }
            return
          }
          this.#status = 'retrying'
          this.#retryCount = failed
          await clock.sleep(delay, signal)
        }
      }
      this.#status = 'stopped'
    } finally {
      if (!this.#keep)
        await host.leave(config).catch((thrown: unknown) => log.warn({ err: thrown }, 'the sandbox of an MCP server is left over'))
      this.#ready.resolve()
    }
  }

  /** One attempt. Ends only by its failure, or by the signal; the process does not outlive it [2-93]. */
  async #serve(signal: AbortSignal): Promise<void> {
    const { config, host, log } = this.#options
    const box = await inPhase('session_create', () => host.open(config, signal))
    this.#box = box
    const transports: LineTransport[] = []
    try {
      await inPhase('dep_install', () => host.install(config, box, signal))
      await inPhase('process_start', () => host.start(config, box, signal))
      const { connected, transport } = await this.#connect(box, transports, signal)
      this.#tools = await inPhase('mcp_init', () => toolsOf(connected))
      this.#connected = connected
      this.#connectedAt = this.#options.clock.now()
      this.#status = 'connected'
      this.#error = null
      this.#ready.resolve()
      await this.#watch(box, transport, signal)
    } finally {
      this.#connected = undefined
      this.#tools = []
      await Promise.all(transports.map((transport) => transport.close()))
      if (!this.#keep)
        await host.stop(config, box).catch((thrown: unknown) => log.debug({ err: thrown }, 'an MCP server could not be stopped'))
    }
  }

  /** While the process runs, a handshake that fails is one with a server that is not there yet [2-92]. */
  async #connect(box: ServerBox, transports: LineTransport[], signal: AbortSignal) {
    const { config, host, clock } = this.#options
    const until = clock.now() + config.box.startup_timeout_sec * 1000
    for (;;) {
      try {
        const left = until - clock.now()
        return await this.#handshake(box, transports, Math.max(100, Math.min(HANDSHAKE_MS, left)), signal)
      } catch (thrown) {
        const error = asServerError(thrown)
        signal.throwIfAborted()
        const record = await host.process(config, box).catch(() => undefined)
        if (record?.status === 'exited') throw new McpServerError(error.phase, endOf(record), { cause: error })
        if (clock.now() + COLD_START_RETRY_MS >= until) throw error
        this.#note(error)
        await clock.sleep(COLD_START_RETRY_MS, signal)
        signal.throwIfAborted()
      }
    }
  }

  async #handshake(box: ServerBox, transports: LineTransport[], timeout: number, signal: AbortSignal) {
    const { config, host } = this.#options
    const transport = new LineTransport((handlers) => inPhase('relay_connect', () => host.attach(config, box, handlers, signal)))
    transports.push(transport)
    const client = new Client({ name: 'boxoffice', version: VERSION })
    await inPhase('mcp_init', () => client.connect(transport, { timeout }))
    const capabilities = client.getServerCapabilities() ?? {}
    const serverInfo = client.getServerVersion() ?? { name: config.name, version: '0' }
    return { transport, connected: { client, box, serverInfo, capabilities, instructions: client.getInstructions() } }
  }

  /** Looks after a server that works; throws when it does not run any more. */
  async #watch(box: ServerBox, transport: LineTransport, signal: AbortSignal): Promise<void> {
    const { config, host, clock } = this.#options
    let isClosed = false
    const closed = transport.closed.then((error) => {
      isClosed = true
      return error
    })
    while (!signal.aborted) {
      const error = await Promise.race([closed, clock.sleep(HEALTH_POLL_MS, signal)])
      if (signal.aborted) return
      if (error instanceof BoxofficeError) throw new McpServerError('runtime', error.message, { cause: error })
      const record = await host.process(config, box).catch((thrown: unknown) => {
        // An agent that restarts has its processes when it is back.
        if (!isClosed && thrown instanceof BoxofficeError && thrown.retryable) return undefined
        throw new McpServerError('runtime', messageOf(thrown), { cause: thrown })
      })
      if (record?.status === 'exited') throw new McpServerError('runtime', endOf(record))
      if (isClosed) throw new McpServerError('runtime', 'the server closed its output')
    }
  }

  #note(error: McpServerError): void {
    const { env, box } = this.config
    this.#error = { phase: error.phase, message: redact(error.message, { ...env, ...box.env }) }
  }
}

async function toolsOf({ client, capabilities }: Connected): Promise<ToolSummary[]> {
  if (capabilities.tools === undefined) return []
  const tools: ToolSummary[] = []
  let cursor: string | undefined
  for (let page = 0; page < MAX_TOOL_PAGES; page++) {
    const answer = await client.listTools(cursor === undefined ? undefined : { cursor })
    tools.push(...answer.tools.map(({ name, description = '' }) => ({ name, description })))
    cursor = answer.nextCursor
    if (cursor === undefined) break
  }
  return tools
}

type End = { exit_code: number | null; signal: string | null; stderr_preview: string }

const endOf = ({ exit_code, signal, stderr_preview }: End): string => {
  const said = stderr_preview.trim().slice(-500)
  return `the server ended with ${signal ?? `exit code ${exit_code ?? 'unknown'}`}${said === '' ? '' : `: ${said}`}`
}

const asServerError = (thrown: unknown): McpServerError =>
  thrown instanceof McpServerError ? thrown : new McpServerError('runtime', messageOf(thrown), { cause: thrown })
