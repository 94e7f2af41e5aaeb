import {
  type Actor,
  type Capability,
  MvpNegotiateResponse,
  type NegotiateRequest,
  type RelayPreference,
  type Scope,
} from '@boxoffice/protocol'
import { BoxofficeError } from './base/errors.ts'
import { type OptionNames, refuseUnknown } from './base/known-options.ts'
import { anySignal } from './base/signals.ts'
import { acceptBootstrap, isBrokerUnavailable } from './bootstrap.ts'
import { Agents } from './control/agents.ts'
import { type ControlPlane, createControlPlane, type ServerCredential } from './control/control-plane.ts'
import { EnrollTokens } from './control/enroll-tokens.ts'
import { Keys } from './control/keys.ts'
import { Secrets } from './control/secrets.ts'
import { RECONNECT_WINDOW_MS, retrying } from './network/backoff.ts'
import type { Fetch } from './network/http.ts'
import { SILENT_MS } from './network/liveness.ts'
import { RuntimeWebSocket, type WebSocketConstructor } from './network/socket.ts'
import { type Session, type SessionRuntime, sessionFrom } from './session.ts'
import { Sessions } from './sessions.ts'

export type ConnectOptions = ServerCredential & {
  /** A pre-negotiated session (`config.configurable.sandbox`), for when the broker cannot answer; see `isBrokerUnavailable`. */
  bootstrap?: unknown
  /** Hosts, beside the broker's, that a bootstrap may point to; `*` for any. */
  allowHosts?: readonly string[] | undefined
  /** How long a dropped stream tries to come back. Default 30,000 ms, which is also how long the server keeps its process. */
  reconnectWindowMs?: number | undefined
  /**
   * How long a request may be without a sign of life from the server, on its connection or on another one. Default 10,000 ms. A call on
   * a network that is silent ends with `SilenceError` within about twice of it. A server that is slow and alive has longer.
   */
  requestTimeoutMs?: number | undefined
  /** Ends everything that this client started. */
  signal?: AbortSignal | undefined
  /** Default: the runtime's own. */
  fetch?: Fetch | undefined
  WebSocket?: WebSocketConstructor | undefined
}

/** What a session is for: a thread, or a scope that may also be a workspace, an assistant or a deployment. */
export type SessionTarget = { threadId: string; scope?: undefined } | { scope: Scope; threadId?: undefined }

export type SessionOptions = {
  /**
   * `ensure` (default) makes the sandbox if there is none, `get` and `attach_only` refuse then with `SESSION_NOT_FOUND`;
   * `create_only` refuses if there is one.
   */
  mode?: NegotiateRequest['mode'] | undefined
  /** On whose behalf; somebody else takes a key with the right `act_as`. */
  actor?: Actor | undefined
  /** What to ask for; default everything. `session.capabilities` says what was granted. */
  capabilities?: readonly Capability[] | undefined
  profile?: string | undefined
  /** The name of a provider; default any. */
  provider?: string | undefined
  /** Who else may use the scope; by its owner. */
  members?: readonly string[] | undefined
  labels?: Record<string, string> | undefined
  /** A directory of the agent's host that becomes the workspace; takes an operator's key, and an agent that allows it. */
  workspaceHostPath?: string | undefined
  /** Default: as agent and session have it, and through the relay when the agent cannot be reached; `never` keeps to the direct way. */
  relay?: RelayPreference | undefined
  /** How long to wait for a sandbox that is starting; default 120,000 ms. */
  startWithinMs?: number | undefined
  signal?: AbortSignal | undefined
}

const CONNECT: OptionNames<Omit<ConnectOptions, keyof ServerCredential> & { apiKey: string; token: string }> = {
  ...{ apiKey: true, token: true, bootstrap: true, allowHosts: true },
  ...{ reconnectWindowMs: true, requestTimeoutMs: true, signal: true, fetch: true, WebSocket: true },
}
const SESSION: OptionNames<SessionOptions & SessionTarget> = {
  ...{ threadId: true, scope: true, mode: true, actor: true, capabilities: true, profile: true, provider: true, members: true },
  ...{ labels: true, workspaceHostPath: true, relay: true, startWithinMs: true, signal: true },
}

/** Where no way leads to the agent there may be none to the broker either; who waits for the agent is to hear of it. */
const RELAY_WITHIN_MS = 8_000

/** The longest that one request may wait on the server [C-17]. */
const PREFER_WAIT_SECONDS = 60

/** The MVP shape; the full blocks beside it are kept where they are. */
const AnyNegotiateResponse = MvpNegotiateResponse.loose()

/** A caller's view of one broker. */
export class Client {
  readonly sessions: Sessions
  readonly keys: Keys
  readonly agents: Agents
  readonly enrollTokens: EnrollTokens
  readonly secrets: Secrets
  readonly #controlPlane: ControlPlane
  readonly #options: ConnectOptions
  readonly #life = new AbortController()
  readonly #runtime: SessionRuntime

  constructor(brokerUrl: string, options: ConnectOptions) {
    refuseUnknown('connect', options, CONNECT)
    this.#options = options
    const signal = anySignal(options.signal, this.#life.signal)
    // Bound: a browser's fetch must not be called as a method of something else.
    const fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init))
    const requestTimeoutMs = positive('requestTimeoutMs', options.requestTimeoutMs ?? SILENT_MS)
    this.#controlPlane = createControlPlane({ url: brokerUrl, credential: options, fetch, requestTimeoutMs, signal })
    this.#runtime = {
      controlPlane: this.#controlPlane,
      fetch,
      WebSocket: options.WebSocket ?? RuntimeWebSocket,
      reconnectWindowMs: options.reconnectWindowMs ?? RECONNECT_WINDOW_MS,
      requestTimeoutMs,
      signal,
    }
    this.sessions = new Sessions(this.#controlPlane)
    this.keys = new Keys(this.#controlPlane)
    this.agents = new Agents(this.#controlPlane)
    this.enrollTokens = new EnrollTokens(this.#controlPlane)
    this.secrets = new Secrets(this.#controlPlane)
  }

  /** The session of a thread, or of another scope; its sandbox is ready when this resolves. */
  session(options: SessionOptions & SessionTarget): Promise<Session>
  session(threadId: string, options?: SessionOptions): Promise<Session>
  async session(first: string | (SessionOptions & SessionTarget), more: SessionOptions = {}): Promise<Session> {
    const options = typeof first === 'string' ? { ...more, threadId: first } : first
    refuseUnknown('session', options, SESSION)
    try {
      const answer = await this.#negotiate(options)
      // Never with `ensure`: what has ended is not made again by the way. With the same grant, which it would replace otherwise.
      const { actor, capabilities } = options
      const relayed = { ...targetOf(options), mode: 'get', relay: 'always', actor, capabilities, startWithinMs: 0 } as const
      const relay = () => this.#negotiate({ ...relayed, signal: AbortSignal.timeout(RELAY_WITHIN_MS) })
      return sessionFrom(answer, this.#runtime, { actor, capabilities, relay: options.relay === 'never' ? undefined : relay })
    } catch (error) {
      const { bootstrap, allowHosts = [] } = this.#options
      const threadId = options.threadId ?? (options.scope.type === 'thread' ? options.scope.id : undefined)
      if (bootstrap === undefined || threadId === undefined || !isBrokerUnavailable(error)) throw error
      const rules = { threadId, brokerUrl: this.#controlPlane.url, allowHosts, now: Date.now() }
      return sessionFrom(acceptBootstrap(bootstrap, rules), this.#runtime)
    }
  }

  /** Ends what this client started; sessions and detached processes stay. */
  close(): void {
    this.#life.abort(new DOMException('the client was closed', 'AbortError'))
  }

  [Symbol.dispose](): void {
    this.close()
  }

  async #negotiate(options: SessionOptions & SessionTarget): Promise<MvpNegotiateResponse> {
    const { mode = 'ensure', profile, labels, relay, actor, capabilities, provider, members, startWithinMs = 120_000, signal } = options
    const workspace = options.workspaceHostPath === undefined ? undefined : { host_path: options.workspaceHostPath }
    const wait = Math.min(PREFER_WAIT_SECONDS, Math.ceil(startWithinMs / 1000))
    const { threadId, scope } = targetOf(options)
    const request = {
      method: 'POST',
      json: {
        ...{ thread_id: threadId, scope, mode, profile, labels, relay, actor, members },
        ...{ requested_capabilities: capabilities, provider_preference: provider, workspace },
      },
      headers: { prefer: `wait=${wait}` },
      signal,
    } as const
    return await retrying(() => this.#controlPlane.json('/v1/sandbox/sessions', request, AnyNegotiateResponse), {
      windowMs: startWithinMs,
      after: ['SANDBOX_STARTING'],
      signal: anySignal(signal, this.#runtime.signal),
    })
  }
}

const targetOf = ({ threadId, scope }: SessionTarget): SessionTarget => (threadId === undefined ? { scope } : { threadId })

const positive = (name: string, value: number): number => {
  if (Number.isFinite(value) && value > 0) return value
  throw new BoxofficeError('INVALID_REQUEST', `${name}: must be a number above 0, and is ${value}`)
}
