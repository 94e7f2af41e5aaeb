import { terminateSoon } from '@boxoffice/node-http'
import { BoxofficeError, type Capability, CLOSE, fromUnknown, type SessionTokenClaims, TIMES } from '@boxoffice/protocol'
import type { WebSocket } from 'ws'
import type { Authenticator } from '../../auth/auth.ts'
import { isPlainExpiry } from '../../auth/verify-signature.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { Messages } from './messages.ts'
import { sandboxGone, sessionEnded } from './session-end.ts'

/** What a socket carries: frames of one exec or shell, or the lines of a managed process. */
export interface SocketTraffic {
  /** One message of the client. The next one waits until this one has been handled. */
  message(data: Buffer, isBinary: boolean): void | Promise<void>
  /** A message could not be handled, or none came in time. */
  thrown(error: unknown): void
  /** Bytes that have not been handed to the network: while there are some, no ping reaches the client. */
  readonly backlog: number
  /** Asked at every ping. */
  checkProgress(): void
  /** The session has ended, or the token has lost what this socket needs. */
  ending(error: BoxofficeError): void
  /** The sandbox is gone. */
  lost(error: BoxofficeError): void
  /** Tells the client why the socket closes now. Returns the code to close with. */
  tell(error: BoxofficeError): number
  /** Hands over what is still held back. */
  flush(): void
  /** The socket is done. `lost`: without a word of the client, which may be back in a moment. */
  dispose(lost: boolean): void
}

export type SocketSessionOptions = {
  ws: WebSocket
  auth: Authenticator
  /** Unix seconds by the broker's clock. */
  now: () => number
  traffic: SocketTraffic
}

const MISSED_PINGS = 2
const MAX_REASON_BYTES = 120
/** The close code of a connection that broke. */
const DROPPED = 1006

/**
 * The session of one WebSocket: who the client is and for how long, whether it is still there, and how the socket ends. Every socket
 * of the dataplane has one; what it carries is its traffic's.
 */
export class SocketSession {
  readonly #options: SocketSessionOptions
  readonly #messages: Messages
  readonly #aborter = new AbortController()
  readonly #authLate: NodeJS.Timeout
  readonly #heartbeat: NodeJS.Timeout
  #claims: SessionTokenClaims | undefined
  #sandbox: Sandbox | undefined
  /** What the token must go on granting [C-57]. */
  #needs: Capability | undefined
  #offEnd: (() => void) | undefined
  #release: (() => void) | undefined
  #expiry: NodeJS.Timeout | undefined
  /** Why the socket ends; told once the process's own end has been. */
  #verdict: BoxofficeError | undefined
  #lastWord: NodeJS.Timeout | undefined
  #missed = 0
  #closing = false
  #disposed = false

  constructor(options: SocketSessionOptions) {
    this.#options = options
    const { ws, traffic } = options
    this.#authLate = setTimeout(
      () => traffic.thrown(new BoxofficeError('UNAUTHENTICATED', `No auth frame within ${TIMES.authenticateWithin} s`)),
      TIMES.authenticateWithin * 1000,
    )
    this.#heartbeat = setInterval(() => this.#beat(), TIMES.pingEvery * 1000)
    this.#messages = new Messages(ws, (thrown) => traffic.thrown(thrown))
    ws.on('message', (data, isBinary) => this.enqueue(() => this.#onMessage(data as Buffer, isBinary)))
    ws.on('pong', () => {
      this.#missed = 0
    })
    ws.on('error', () => {
      if (this.#claims === undefined) terminateSoon(ws)
    })
    ws.on('close', (code) => this.#dispose(code === DROPPED || code === CLOSE.restart))
  }

  /** Of the client; undefined until it is known. */
  get claims(): SessionTokenClaims | undefined {
    return this.#claims
  }
  get sandbox(): Sandbox | undefined {
    return this.#sandbox
  }
  get closing(): boolean {
    return this.#closing
  }
  /** Why the socket is ending, if it is. */
  get verdict(): BoxofficeError | undefined {
    return this.#verdict
  }
  /** Aborts when the socket is done. */
  get signal(): AbortSignal {
    return this.#aborter.signal
  }

  /** In the order of the client's messages. */
  enqueue(handle: () => void | Promise<void>): void {
    this.#messages.add(handle)
  }

  /** Stops reading the client, or goes on. */
  holdReading(held: boolean): void {
    this.#messages.hold(held)
  }

  /** The client has shown a good token in time. */
  authenticated(): void {
    clearTimeout(this.#authLate)
  }

  /** The client is who these claims name, until they expire [C-27]. */
  admit(claims: SessionTokenClaims, sandbox: Sandbox): void {
    if (this.#closing) return
    this.authenticated()
    this.#offEnd ??= sandbox.onEnd((end) => {
      if (end.lost || end.reason === 'failed') this.#options.traffic.lost(sandboxGone())
      else this.#options.traffic.ending(sessionEnded(end.reason))
    })
    this.#claims = claims
    this.#sandbox = sandbox
    clearTimeout(this.#expiry)
    const remaining = (claims.exp + TIMES.tokenGraceOnSocket - this.#options.now()) * 1000
    this.#expiry = setTimeout(
      () => this.fail(new BoxofficeError('TOKEN_EXPIRED', 'The session token has expired; attach again with a new one')),
      Math.max(0, remaining),
    )
  }

  /** From now on the sandbox is in use, and is not suspended. */
  use(sandbox: Sandbox): void {
    this.#release ??= sandbox.activity.attach()
  }

  /** From now on a token that does not grant this ends the socket. */
  require(capability: Capability): void {
    this.#needs = capability
  }

  /** The deny-list or the token has changed. */
  recheck(): void {
    const denied = this.denied()
    if (denied !== undefined && !this.#closing) this.#options.traffic.ending(denied)
  }

  /** Why this socket may not go on; expiry has its own time [C-27]. */
  denied(): BoxofficeError | undefined {
    if (this.#claims === undefined) return undefined
    const { auth } = this.#options
    try {
      auth.recheck(this.#claims)
      if (this.#needs !== undefined) auth.require(this.#claims, this.#needs)
    } catch (thrown) {
      const error = fromUnknown(thrown)
      if (!isPlainExpiry(error)) return error
    }
    return undefined
  }

  /** The socket ends with this error, whatever comes first: the end of its process, or this many milliseconds. */
  end(error: BoxofficeError, withinMs: number): void {
    this.#verdict = error
    clearTimeout(this.#lastWord)
    if (withinMs === 0) this.fail(error)
    else if (!this.#closing) this.#lastWord = setTimeout(() => this.fail(error), withinMs)
  }

  /** An error for the client, and a close. A stream that breaks because the session ends is told as that end. */
  fail(error: BoxofficeError): void {
    if (this.#closing) return
    const reason = this.#verdict ?? error
    this.close(this.#options.traffic.tell(reason), reason.code)
  }

  close(code: number, reason = ''): void {
    if (this.#closing) return
    const { ws, traffic } = this.#options
    this.#closing = true
    traffic.flush()
    ws.close(code, reason.slice(0, MAX_REASON_BYTES))
    if (this.#claims === undefined) terminateSoon(ws)
    this.#dispose(code === CLOSE.restart)
  }

  /** The agent goes down; a client that does not answer the close is not waited for. */
  shutdown(): void {
    this.close(CLOSE.restart, 'server restart')
  }

  terminate(): void {
    this.#options.ws.terminate()
  }

  #onMessage(data: Buffer, isBinary: boolean): void | Promise<void> {
    if (!this.#closing) return this.#options.traffic.message(data, isBinary)
  }

  /**
   * A peer that has missed two pings is gone [C-68]. While we do not read it, it cannot be heard; while it does not read us, no ping
   * reaches it, and the limit of a stalled reader holds [4-134].
   */
  #beat(): void {
    const { ws, traffic } = this.#options
    traffic.checkProgress()
    if (this.#messages.paused || traffic.backlog > 0) return
    if (this.#missed >= MISSED_PINGS) return this.terminate()
    this.#missed++
    ws.ping()
  }

  #dispose(lost: boolean): void {
    if (this.#disposed) return
    this.#disposed = true
    this.#closing = true
    this.#aborter.abort(new BoxofficeError('INVALID_REQUEST', 'The client closed the connection'))
    for (const timer of [this.#authLate, this.#expiry, this.#lastWord]) clearTimeout(timer)
    clearInterval(this.#heartbeat)
    this.#offEnd?.()
    this.#options.traffic.dispose(lost)
    this.#release?.()
    this.#messages.stop()
  }
}
