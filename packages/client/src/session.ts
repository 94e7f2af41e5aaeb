import {
  type Actor,
  type Binding,
  type Capability,
  HeartbeatResponse,
  type MvpNegotiateResponse,
  NegotiateResponse,
  RefreshResponse,
} from '@boxoffice/protocol'
import { BoxofficeError, isCode } from './base/errors.ts'
import { type OptionNames, refuseUnknown } from './base/known-options.ts'
import type { ControlPlane } from './control/control-plane.ts'
import { type EventsOptions, followEvents, type SessionEvent } from './control/events.ts'
import { createDataplane, type Dataplane } from './dataplane/dataplane.ts'
import { createEndpoints, type Endpoint } from './network/endpoints.ts'
import type { Fetch } from './network/http.ts'
import { createSessionToken } from './network/session-token.ts'
import type { WebSocketConstructor } from './network/socket.ts'
import { Egress } from './sandbox/egress.ts'
import { createExec, type Exec } from './sandbox/exec.ts'
import { Files } from './sandbox/files.ts'
import { Ports } from './sandbox/ports.ts'
import { Previews } from './sandbox/previews.ts'
import { Processes } from './sandbox/processes.ts'
import { openShell, type Shell, type ShellOptions } from './sandbox/shell.ts'

export type SessionRuntime = {
  controlPlane: ControlPlane
  fetch: Fetch
  WebSocket: WebSocketConstructor
  reconnectWindowMs: number
  requestTimeoutMs: number
  signal: AbortSignal | undefined
}

/** What a broker of the MVP leaves out; `mode` as negotiated. */
export type SessionDetails = {
  binding: Binding | undefined
  capabilities: readonly Capability[] | undefined
  warnings: readonly string[]
  mode: 'direct' | 'relay' | undefined
}

type ReleaseOptions = { keepWorkspace?: boolean; signal?: AbortSignal }
const RELEASE: OptionNames<ReleaseOptions> = { keepWorkspace: true, signal: true }

/** For whom and with what tokens are renewed. */
type Renewal = { actor?: Actor | undefined; capabilities?: readonly Capability[] | undefined }
/** And how to go through the relay, where that is wanted. */
type RelayRenewal = Renewal & { relayed?: (() => Promise<Endpoint>) | undefined }

/** A thread's sandbox, and the right to use it. It holds no timer and no connection: those belong to the runs and shells that it starts. */
export class Session {
  readonly id: string
  readonly threadId: string | null
  readonly sandboxId: string
  readonly provider: string
  /** The broker that it was negotiated with. */
  readonly brokerUrl: string
  /** Where its dataplane is, as negotiated; only suffixes are appended [C-42]. */
  readonly httpBaseUrl: string
  readonly wsBaseUrl: string
  readonly details: SessionDetails
  readonly exec: Exec
  readonly files: Files
  readonly processes: Processes
  readonly ports: Ports
  readonly egress: Egress
  readonly #controlPlane: ControlPlane
  readonly #reconnectWindowMs: number
  readonly #dataplane: Dataplane

  /** Called when the session has fallen back to the relay, because its agent cannot be reached directly. */
  onModeChange: ((mode: SessionDetails['mode']) => void) | undefined

  constructor(
    negotiated: MvpNegotiateResponse,
    details: SessionDetails,
    runtime: SessionRuntime,
    { actor, capabilities, relayed }: RelayRenewal = {},
  ) {
    const { controlPlane, fetch, WebSocket, reconnectWindowMs, requestTimeoutMs, signal } = runtime
    this.id = negotiated.session_id
    this.threadId = negotiated.thread_id
    this.sandboxId = negotiated.sandbox.id
    this.provider = negotiated.sandbox.provider
    this.brokerUrl = controlPlane.url
    this.httpBaseUrl = negotiated.sandbox.http_base_url
    this.wsBaseUrl = negotiated.sandbox.ws_base_url
    this.details = details
    this.#controlPlane = controlPlane
    this.#reconnectWindowMs = reconnectWindowMs
    this.#dataplane = createDataplane({
      endpoints: createEndpoints({ negotiated: endpointOf(negotiated), relayed, onChange: ({ mode }) => this.onModeChange?.(mode) }),
      token: createSessionToken(negotiated, () =>
        controlPlane.json(
          `${path(this.id)}/refresh`,
          { method: 'POST', json: { actor, requested_capabilities: capabilities } },
          RefreshResponse,
        ),
      ),
      fetch,
      WebSocket,
      reconnectWindowMs,
      requestTimeoutMs,
      signal,
    })
    this.exec = createExec(this.#dataplane)
    this.files = new Files(this.#dataplane)
    this.processes = new Processes(this.#dataplane)
    this.egress = new Egress(controlPlane, `${path(this.id)}/egress`)
    this.ports = new Ports(this.#dataplane, new Previews(controlPlane, `${path(this.id)}/ports`))
  }

  /** The mode that is used now: as negotiated, or the relay since the direct one led nowhere. Undefined if an MVP broker did not say. */
  get mode(): SessionDetails['mode'] {
    return this.#dataplane.endpoints.current.mode
  }

  /** What was granted, which may be less than was asked for; undefined if an MVP broker did not say. */
  get capabilities(): readonly Capability[] | undefined {
    return this.details.capabilities
  }

  /** What the broker thought worth saying: `profile_differs`, `unknown_capability:…` and the like. */
  get warnings(): readonly string[] {
    return this.details.warnings
  }

  /** When the present token ends. It is renewed before that, on use. */
  get expiresAt(): Date {
    return this.#dataplane.token.expiresAt
  }

  /** Opens an interactive shell, or joins one by its `shellId`. */
  shell(options?: ShellOptions): Promise<Shell> {
    return openShell(this.#dataplane, options)
  }

  /** What happens to it, until it ends; resumes by itself when the connection drops. */
  events(options?: EventsOptions): AsyncGenerator<SessionEvent, void, undefined> {
    return followEvents(this.#controlPlane, `${path(this.id)}/events`, this.#reconnectWindowMs, options)
  }

  /** Renews the token now. Not needed for normal use. */
  async refresh(): Promise<void> {
    await this.#dataplane.token.renew()
  }

  /** Says that the session is still needed although nothing happens in it; gives its lease as it is then. */
  async heartbeat(options: { signal?: AbortSignal } = {}): Promise<{ binding: Binding; leaseExpiresAt: Date }> {
    const request = { method: 'POST', json: {}, ...options } as const
    const { binding, lease_expires_at } = await this.#controlPlane.json(`${path(this.id)}/heartbeat`, request, HeartbeatResponse)
    return { binding, leaseExpiresAt: new Date(lease_expires_at) }
  }

  /** Ends the session for everyone on the thread: processes, sandbox and, unless kept, the workspace. One that is gone is fine. */
  release(options: ReleaseOptions = {}): Promise<void> {
    return releaseSession(this.#controlPlane, this.id, options)
  }

  /** `await using session = …` releases it at the end of the block, with its workspace. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }
}

/** From what the broker answered: the full blocks where it has them. */
export const sessionFrom = (
  answer: MvpNegotiateResponse,
  runtime: SessionRuntime,
  { relay, ...renewal }: Renewal & { relay?: (() => Promise<MvpNegotiateResponse>) | undefined } = {},
): Session => {
  const full = NegotiateResponse.safeParse(answer).data
  const details = {
    binding: full?.binding,
    capabilities: full?.credentials.granted_capabilities,
    warnings: full?.warnings ?? [],
    mode: full?.dataplane.mode,
  }
  const relayed = relay && (async () => relayOf(answer, await relay()))
  return new Session(answer, details, runtime, { ...renewal, relayed })
}

const endpointOf = (answer: MvpNegotiateResponse): Endpoint => ({
  httpBaseUrl: answer.sandbox.http_base_url,
  wsBaseUrl: answer.sandbox.ws_base_url,
  mode: NegotiateResponse.safeParse(answer).data?.dataplane.mode,
})

/** The scope may have another session by now, and that would be another sandbox. */
const relayOf = (session: MvpNegotiateResponse, answer: MvpNegotiateResponse): Endpoint => {
  const endpoint = endpointOf(answer)
  if (answer.session_id === session.session_id && endpoint.mode === 'relay') return endpoint
  throw new BoxofficeError('INVALID_RESPONSE', `the broker has no relay for ${session.session_id}`)
}

const path = (id: string) => `/v1/sandbox/sessions/${encodeURIComponent(id)}`

export const releaseSession = async (controlPlane: ControlPlane, id: string, options: ReleaseOptions = {}): Promise<void> => {
  refuseUnknown('release', options, RELEASE)
  const { keepWorkspace, signal } = options
  try {
    await controlPlane.done(`${path(id)}${keepWorkspace ? '?keep_workspace=true' : ''}`, { method: 'DELETE', signal })
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

/** A second release is 404 [C-54]; clients take it as done. */
const isGone = (error: unknown): boolean => isCode(error, 'BINDING_NOT_FOUND')
