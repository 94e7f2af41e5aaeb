import { MvpNegotiateResponse, type RelayPreference } from '@boxoffice/protocol'
import { RECONNECT_WINDOW_MS, retrying } from './backoff.ts'
import { acceptBootstrap, isBrokerUnavailable } from './bootstrap.ts'
import { type ControlPlane, createControlPlane, type ServerCredential } from './control-plane.ts'
import type { Fetch } from './http.ts'
import { Keys } from './keys.ts'
import { type Session, type SessionRuntime, sessionFrom } from './session.ts'
import { Sessions } from './sessions.ts'
import { anySignal } from './signals.ts'
import type { WebSocketConstructor } from './stream/socket.ts'

export type ConnectOptions = ServerCredential & {
  /** A pre-negotiated session (`config.configurable.sandbox`), for when the broker cannot answer; see `isBrokerUnavailable`. */
  bootstrap?: unknown
  /** Hosts, beside the broker's, that a bootstrap may point to; `*` for any. */
  allowHosts?: readonly string[] | undefined
  /** How long a dropped stream tries to come back. Default 30,000 ms, which is also how long the server keeps its process. */
  reconnectWindowMs?: number | undefined
  /** Ends everything that this client started. */
  signal?: AbortSignal | undefined
  /** Default: the runtime's own. */
  fetch?: Fetch | undefined
  WebSocket?: WebSocketConstructor | undefined
}

export type SessionOptions = {
  /** `ensure` (default) makes the sandbox if there is none; `get` refuses then with `SESSION_NOT_FOUND`. */
  mode?: 'ensure' | 'get' | undefined
  profile?: string | undefined
  labels?: Record<string, string> | undefined
  /** Default: as agent and session have it, and through the relay when the agent cannot be reached; `never` keeps to the direct way. */
  relay?: RelayPreference | undefined
  /** How long to wait for a sandbox that is starting; default 120,000 ms. */
  startWithinMs?: number | undefined
  signal?: AbortSignal | undefined
}

/** The longest that one request may wait on the server [C-17]. */
const PREFER_WAIT_SECONDS = 60

/** The MVP shape; the full blocks beside it are kept where they are. */
const AnyNegotiateResponse = MvpNegotiateResponse.loose()

/** A caller's view of one broker. */
export class Client {
  readonly sessions: Sessions
  readonly keys: Keys
  readonly #controlPlane: ControlPlane
  readonly #options: ConnectOptions
  readonly #life = new AbortController()
  readonly #runtime: SessionRuntime

  constructor(brokerUrl: string, options: ConnectOptions) {
    this.#options = options
    const signal = anySignal(options.signal, this.#life.signal)
    // Bound: a browser's fetch must not be called as a method of something else.
    const fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init))
    this.#controlPlane = createControlPlane({ url: brokerUrl, credential: options, fetch, signal })
    this.#runtime = {
      controlPlane: this.#controlPlane,
      fetch,
      WebSocket: options.WebSocket ?? globalThis.WebSocket,
      reconnectWindowMs: options.reconnectWindowMs ?? RECONNECT_WINDOW_MS,
      signal,
    }
    this.sessions = new Sessions(this.#controlPlane)
    this.keys = new Keys(this.#controlPlane)
  }

  /** The session of a thread; its sandbox is ready when this resolves. */
  async session(threadId: string, options: SessionOptions = {}): Promise<Session> {
    try {
      const answer = await this.#negotiate(threadId, options)
      // Never with `ensure`: what has ended is not made again by the way.
      const relay = () => this.#negotiate(threadId, { mode: 'get', relay: 'always', startWithinMs: 0 })
      return sessionFrom(answer, this.#runtime, options.relay === 'never' ? undefined : relay)
    } catch (error) {
      const { bootstrap, allowHosts = [] } = this.#options
      if (bootstrap === undefined || !isBrokerUnavailable(error)) throw error
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

  async #negotiate(threadId: string, options: SessionOptions): Promise<MvpNegotiateResponse> {
    const { mode = 'ensure', profile, labels, relay, startWithinMs = 120_000, signal } = options
    const wait = Math.min(PREFER_WAIT_SECONDS, Math.ceil(startWithinMs / 1000))
    const request = {
      method: 'POST',
      json: { thread_id: threadId, mode, profile, labels, relay },
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
