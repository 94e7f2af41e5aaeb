import type { BoxofficeError } from '@boxoffice/protocol'
import { WebSocket } from 'ws'
import type { AgentTls } from '../relay/http1/agent-tls.ts'
import type { Access } from './access.ts'
import { type DialOptions, dialAgent, errorOf, mend, renewLater, SOCKET_CLOSE, unreachable } from './agent-socket.ts'

/** What a mended socket carries: the frames of a process, or its lines. */
export interface MendedTraffic {
  /** Asked at each connection, again after a drop. */
  dial(): Pick<DialOptions, 'path' | 'protocol' | 'maxPayload'>
  /** Calls `begin` for the connection that it comes from, and `ready` for one that has the process. */
  message(ws: WebSocket, data: Buffer, isBinary: boolean): void
  /** There is another token for the present connection. */
  renewed(token: string): void
  /** The socket cannot be mended. Gives the error of the end; undefined when it is none. */
  givenUp(error: BoxofficeError): BoxofficeError | undefined
  /** Once, last. */
  closed(error?: BoxofficeError): void
}

export type MendedSocketOptions = {
  access: () => Promise<Access>
  signal: AbortSignal | undefined
  /** Milliseconds that never jump. */
  monotonic: () => number
  agentTls?: AgentTls
}

/** A connection to a process of a sandbox that is made again after a drop, with tokens that are renewed, until the process or its user ends it. */
export class MendedSocket {
  readonly #options: MendedSocketOptions
  readonly #traffic: MendedTraffic
  #ws: WebSocket | undefined
  #ready: PromiseWithResolvers<void> | undefined
  #isReady = false
  #isDone = false
  #isClosed = false
  #isPaused = false
  #error: BoxofficeError | undefined
  #renewal: NodeJS.Timeout | undefined

  constructor(options: MendedSocketOptions, traffic: MendedTraffic) {
    this.#options = options
    this.#traffic = traffic
    options.signal?.addEventListener('abort', () => this.leave(), { once: true })
  }

  /** The present connection, also one that is not ready yet. */
  get ws(): WebSocket | undefined {
    return this.#ws
  }

  /** The present connection, if it is ready and open. */
  get readyWs(): WebSocket | undefined {
    return this.#isReady && this.#ws?.readyState === WebSocket.OPEN ? this.#ws : undefined
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** The process has ended. */
  get isDone(): boolean {
    return this.#isDone
  }

  /** Resolves once the traffic is ready or done; rejects with the agent's refusal. */
  open(): Promise<void> {
    this.#options.signal?.throwIfAborted()
    return this.#connect()
  }

  /** This connection is the present one from now on. Gives whether it was not before. */
  begin(ws: WebSocket): boolean {
    const isNew = this.#ws !== ws
    this.#ws = ws
    return isNew
  }

  /** The present connection has the process. */
  ready(): void {
    this.#isReady = true
    if (this.#isPaused) this.#ws?.pause()
    this.#ready?.resolve()
  }

  /** The process has ended: the close of the connection is the end of the socket. */
  done(): void {
    this.#isDone = true
    this.#ready?.resolve()
  }

  /** The agent has told an error: if it closes the connection, this is why. */
  told(error: BoxofficeError): void {
    this.#error = error
  }

  pause(): void {
    this.#isPaused = true
    this.#ws?.pause()
  }

  resume(): void {
    this.#isPaused = false
    this.#ws?.resume()
  }

  /** Leaves the process, which goes on. */
  leave(): void {
    this.#ws?.resume()
    this.#ws?.close(SOCKET_CLOSE.done)
    this.#end()
  }

  async #connect(): Promise<void> {
    const { access, agentTls } = this.#options
    const known = await access()
    const ready = Promise.withResolvers<void>()
    this.#ready = ready
    this.#error = undefined
    const ws = dialAgent(known, { ...this.#traffic.dial(), agentTls, refused: ready.reject })
    ws.on('message', (data: Buffer, isBinary) => {
      if (!this.#isClosed) return this.#traffic.message(ws, data, isBinary)
      ready.resolve()
      ws.close(SOCKET_CLOSE.done)
    })
    ws.on('close', (code) => {
      ready.reject(this.#error ?? unreachable(code))
      if (this.#ws === ws) this.#onClose(code)
    })
    await ready.promise
    if (this.#isClosed) return ws.close(SOCKET_CLOSE.done)
    this.#renewLater(known.expiresAt)
  }

  #onClose(code: number): void {
    const wasReady = this.#isReady
    this.#ws = undefined
    this.#isReady = false
    if (this.#isClosed) return
    if (this.#isDone || code === SOCKET_CLOSE.done) return this.#end()
    // Who connects hears of it, and tries again.
    if (!wasReady) return
    const comesBack = code === SOCKET_CLOSE.lost || code === SOCKET_CLOSE.goingAway || this.#error?.code === 'TOKEN_EXPIRED'
    if (comesBack) void this.#mend()
    else this.#end(this.#error ?? unreachable(code))
  }

  async #mend(): Promise<void> {
    try {
      await mend(
        () => this.#connect(),
        () => this.#isClosed,
      )
    } catch (thrown) {
      this.#end(this.#traffic.givenUp(errorOf(thrown)))
    }
  }

  #renewLater(expiresAt: number): void {
    clearTimeout(this.#renewal)
    if (this.#isDone) return
    this.#renewal = renewLater(this.#options, expiresAt, ({ token, expiresAt: next }) => {
      if (this.#isClosed) return
      this.#traffic.renewed(token)
      this.#renewLater(next)
    })
  }

  #end(error?: BoxofficeError): void {
    if (this.#isClosed) return
    this.#isClosed = true
    clearTimeout(this.#renewal)
    this.#traffic.closed(error)
  }
}
