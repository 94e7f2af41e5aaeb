import { McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { McpServerConfig } from '../../../src/config/mcp-server.ts'
import type { LineSocketHandlers } from '../../../src/dataplane/line-socket.ts'
import { createLog } from '../../../src/host/log.ts'
import type { McpHost, ServerBox } from '../../../src/surfaces/mcp/host.ts'
import type { SharedHost } from '../../../src/surfaces/mcp/leased-host.ts'
import { McpServerError } from '../../../src/surfaces/mcp/phases.ts'
import type { Clock } from '../../../src/surfaces/mcp/schedule.ts'
import { McpServerRuntime } from '../../../src/surfaces/mcp/server-runtime.ts'

/** Time that passes when everybody waits for it: each sleep is noted and over at once, in order. */
export class FakeClock implements Clock {
  #now = 0
  /** When each sleep began, and for how long it was. */
  readonly sleeps: { at: number; ms: number }[] = []
  /** The sleeps of this length last until the test says so. */
  held: number | undefined
  #release: (() => void) | undefined

  now = (): number => this.#now

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    this.sleeps.push({ at: this.#now, ms })
    if (ms === this.held && !signal.aborted) {
      const gate = Promise.withResolvers<void>()
      this.#release = gate.resolve
      signal.addEventListener('abort', () => gate.resolve(), { once: true })
      await gate.promise
    }
    this.#now += ms
    await new Promise(setImmediate)
  }

  /** Ends the sleep that is held. */
  pass(): void {
    this.#release?.()
  }
}

type Step = 'open' | 'install' | 'start' | 'attach'

/**
 * A host without processes: each server is a real one of the official SDK in this very process, behind lines as a sandbox gives
 * them. What is to go wrong is said by step.
 */
export class ScriptedHost implements SharedHost {
  /** Everything that was asked for, with the time. */
  readonly calls: string[] = []
  /** Thrown by the step each time, or so often. */
  readonly failures = new Map<Step, { error: Error; times: number }>()
  /** What a message that the server gets is answered with, in the place of the server: nothing, or a line. */
  answer: ((line: string) => string | null) | undefined
  exited: { exit_code: number; signal: null; stderr_preview: string } | null = null
  readonly lives = new Set<string>()
  readonly running = new Set<string>()
  readonly #clock: Clock
  #handlers: LineSocketHandlers | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  join({ name }: McpServerConfig): void {
    this.lives.add(name)
  }

  part({ name }: McpServerConfig): void {
    this.lives.delete(name)
  }

  async leave({ name }: McpServerConfig): Promise<void> {
    this.calls.push('leave')
    this.lives.delete(name)
  }

  async open(): Promise<ServerBox> {
    this.#step('open')
    return { sessionId: 'ssn_1', warnings: [], isolation: 'container' }
  }

  async install(): Promise<void> {
    this.#step('install')
  }

  async start({ name }: McpServerConfig): Promise<void> {
    this.#step('start')
    this.running.add(name)
    this.exited = null
  }

  attach: McpHost['attach'] = async (_config, _box, handlers) => {
    this.#step('attach')
    this.#handlers = handlers
    const server = newServer()
    const transport = {
      onmessage: undefined as ((message: never) => void) | undefined,
      start: async () => {},
      send: async (message: unknown) => handlers.line(JSON.stringify(message)),
      close: async () => {},
    }
    await server.connect(transport as never)
    return {
      send: (line) => {
        if (this.answer === undefined) queueMicrotask(() => transport.onmessage?.(JSON.parse(line) as never))
        else {
          const answer = this.answer(line)
          if (answer !== null) queueMicrotask(() => handlers.line(answer))
        }
        return true
      },
      pause: () => {},
      resume: () => {},
      close: () => handlers.closed(),
    }
  }

  process: McpHost['process'] = async () =>
    this.exited === null ? { status: 'running', exit_code: null, signal: null, stderr_preview: '' } : { status: 'exited', ...this.exited }

  async stop({ name }: McpServerConfig): Promise<void> {
    this.calls.push('stop')
    this.running.delete(name)
  }

  /** The process ends; whether its socket tells of it is another matter. */
  end(exit_code: number, stderr_preview: string, tell: boolean): void {
    this.exited = { exit_code, signal: null, stderr_preview }
    if (tell) this.#handlers?.closed()
  }

  /** When a step was asked for. */
  times(step: Step): number[] {
    return this.calls.filter((call) => call.startsWith(`${step} `)).map((call) => Number(call.slice(step.length + 1)))
  }

  #step(step: Step): void {
    this.calls.push(`${step} ${this.#clock.now()}`)
    const failure = this.failures.get(step)
    if (failure === undefined || failure.times === 0) return
    failure.times -= 1
    throw failure.error
  }
}

const newServer = (): McpServer => {
  const server = new McpServer({ name: 'scripted', version: '1.0.0' })
  server.registerTool('greet', { description: 'says hello', inputSchema: z.object({}) }, () => ({
    content: [{ type: 'text', text: 'hello' }],
  }))
  return server
}

export const always = (error: Error) => ({ error, times: Number.POSITIVE_INFINITY })
export const unavailable = () => new McpServerError('session_create', 'box_unavailable: nothing is there', { reason: 'box_unavailable' })

export const newRuntime = (fields: Record<string, unknown> = {}, after?: Promise<void>) => {
  const clock = new FakeClock()
  const host = new ScriptedHost(clock)
  const config = McpServerConfig.parse({ name: 'a', command: 'node', ...fields })
  const runtime = new McpServerRuntime({ config, host, clock, log: createLog('silent'), after })
  host.join(config)
  return { clock, host, config, runtime }
}
