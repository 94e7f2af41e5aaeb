import { ListProcessesResponse, ManagedProcess } from '@boxoffice/protocol'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { retrying } from '../network/backoff.ts'
import { type HttpRequest, readJson } from '../network/http.ts'
import { attachLines, type Lines, type LinesOptions } from '../stream/lines.ts'

export type ProcessOptions = {
  /** Default `default`; many run beside each other. */
  processId?: string | undefined
  args?: readonly string[] | undefined
  cwd?: string | undefined
  /** Values are never told again. */
  env?: Record<string, string> | undefined
  /** Ends the running one of this id first. Default: that is a conflict. */
  replace?: boolean | undefined
  /** When it is started again after an end that nobody asked for. Default `never`. */
  restart?: ManagedProcess['restart'] | undefined
  maxRestarts?: number | undefined
  signal?: AbortSignal | undefined
}

/** What is known of a managed process: `ManagedProcess` of the protocol in the SDK's spelling. */
export type ProcessState = {
  processId: string
  status: 'running' | 'exited'
  command: string
  args: readonly string[]
  cwd: string
  envKeys: readonly string[]
  attached: boolean
  startedAt: Date
  exitedAt: Date | null
  /** Of the last run; null while it runs, and where nobody saw the end. */
  exitCode: number | null
  signal: string | null
  reason: ManagedProcess['reason']
  stderrPreview: string
  restarts: number
  restarting: boolean
}

type Options = { signal?: AbortSignal | undefined }

const PROCESS: OptionNames<ProcessOptions> = {
  ...{ processId: true, args: true, cwd: true, env: true },
  ...{ replace: true, restart: true, maxRestarts: true, signal: true },
}

/** Long-lived programs of a session, by name: servers, watchers. They keep it from idling, and live without a client. */
export class Processes {
  readonly #dataplane: Dataplane

  constructor(dataplane: Dataplane) {
    this.#dataplane = dataplane
  }

  /** Starts a program, without a shell. One that could not be spawned is `exited`, with the reason in `stderrPreview`. */
  async start(command: string, options: ProcessOptions = {}): Promise<ProcessState> {
    refuseUnknown('processes.start', options, PROCESS)
    const { processId, args, cwd, env, replace, restart, maxRestarts, signal } = options
    const json = { process_id: processId, command, args, cwd, env, replace, restart, max_restarts: maxRestarts }
    return await one(this.#dataplane.request('/processes', { method: 'POST', json, signal }), signal)
  }

  async list({ signal }: Options = {}): Promise<ProcessState[]> {
    const response = await this.#repeat('/processes', { signal })
    return (await readJson(response, ListProcessesResponse, signal)).processes.map(toState)
  }

  get(processId = 'default', { signal }: Options = {}): Promise<ProcessState> {
    return one(this.#repeat(`/processes${path(processId)}`, { signal }), signal)
  }

  /** Ends it: stdin closed, TERM, 5 s, KILL. Resolves when it has ended; one that is not there is fine. */
  async stop(processId = 'default', { signal }: Options = {}): Promise<void> {
    await this.#repeat(`/processes${path(processId)}`, { method: 'DELETE', signal })
  }

  /** Its stdin and stdout as lines, for this client alone. A dropped connection is mended underneath. */
  attach(processId = 'default', options: LinesOptions = {}): Promise<Lines> {
    return attachLines(this.#dataplane, processId, options)
  }

  /** What may be asked any number of times. */
  #repeat(path: string, request: HttpRequest): Promise<Response> {
    const { reconnectWindowMs: windowMs, signal } = this.#dataplane
    return retrying(() => this.#dataplane.request(path, request), { windowMs, signal: anySignal(request.signal, signal) })
  }
}

const one = async (answer: Promise<Response>, signal: AbortSignal | undefined): Promise<ProcessState> =>
  toState(await readJson(await answer, ManagedProcess, signal))

const path = (processId: string): string => `/${encodeURIComponent(processId)}`

const toState = (wire: ManagedProcess): ProcessState => ({
  processId: wire.process_id,
  status: wire.status,
  command: wire.command,
  args: wire.args,
  cwd: wire.cwd,
  envKeys: wire.env_keys,
  attached: wire.attached,
  startedAt: new Date(wire.started_at),
  exitedAt: wire.exited_at === null ? null : new Date(wire.exited_at),
  exitCode: wire.exit_code,
  signal: wire.signal,
  reason: wire.reason,
  stderrPreview: wire.stderr_preview,
  restarts: wire.restarts,
  restarting: wire.restarting,
})
