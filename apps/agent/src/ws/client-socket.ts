import type { Duplex } from 'node:stream'
import { allowMessageBytes, countReads, markAuthenticated, terminateSoon } from '@boxoffice/node-http'
import { BoxofficeError, CLOSE, fromUnknown, LIMITS, type SessionTokenClaims, STREAM_STDIN, TIMES } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { WebSocket } from 'ws'
import { type Authenticator, isPlainExpiry } from '../auth/auth.ts'
import type { DataplaneLimits } from '../http/dataplane-limits.ts'
import { type endedWith, KILL_GRACE_MS, killCause } from '../http/ended.ts'
import type { DataplaneMetrics } from '../http/metrics.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { Attachment, type AttachmentOwner } from './attachment.ts'
import type { Attachments } from './attachments.ts'
import { beginning } from './begin.ts'
import { type ClientFrame, parseFrame, type SocketKind, stdinBytes } from './frames.ts'
import { Messages } from './messages.ts'
import { sandboxGone, sessionEnded } from './session-end.ts'
import { SocketWriter } from './writer.ts'

export type ClientSocketOptions = {
  ws: WebSocket
  socket: Duplex
  kind: SocketKind
  /** Subprotocol `boxoffice.v1.binary`: data travels as binary messages. */
  binary: boolean
  sandboxId: string
  requestId: string
  /** From the upgrade's header or subprotocol. */
  claims: SessionTokenClaims | undefined
  auth: Authenticator
  attachments: Attachments
  /** An `auth` frame was accepted. */
  opened: (claims: SessionTokenClaims, token: string) => void
  /** A frame, or the lack of one, was refused; ends of the session are no refusals. */
  refused: (error: BoxofficeError, claims: SessionTokenClaims | undefined) => void
  metrics: DataplaneMetrics
  /** Unix seconds by the broker's clock. */
  now: () => number
  limits: DataplaneLimits
  log: Logger
}

/** Pings that may come before `auth` [C-68]. */
const PINGS_BEFORE_AUTH = 20
const MISSED_PINGS = 2
const MAX_REASON_BYTES = 120
/** How long the process's own end may take to arrive before the socket is closed without it. */
const LAST_WORD_MS = 2000

/** One client's WebSocket: authentication, frames in their order, expiry and ends. The process itself is `Attachment`'s. */
export class ClientSocket implements AttachmentOwner {
  readonly writer: SocketWriter
  readonly binary: boolean
  readonly #options: ClientSocketOptions
  readonly #ws: WebSocket
  readonly #aborter = new AbortController()
  readonly #authLate: NodeJS.Timeout
  readonly #heartbeat: NodeJS.Timeout
  #claims: SessionTokenClaims | undefined
  #sandbox: Sandbox | undefined
  #attachment: Attachment | undefined
  #release: (() => void) | undefined
  #offEnd: (() => void) | undefined
  #expiry: NodeJS.Timeout | undefined
  /** Its token granted what this kind of socket needs: from then on, losing that ends it [C-57]. */
  #capable = false
  #started = false
  #closing = false
  /** The session has ended: how to close once the exit has been told. */
  #verdict: BoxofficeError | undefined
  #lastWord: NodeJS.Timeout | undefined
  #missed = 0
  #earlyPings = 0
  readonly #messages: Messages

  constructor(options: ClientSocketOptions) {
    this.#options = options
    this.#ws = options.ws
    this.binary = options.binary
    this.writer = new SocketWriter(options.ws, options.socket)
    this.#authLate = setTimeout(
      () => this.#crash(new BoxofficeError('UNAUTHENTICATED', `No auth frame within ${TIMES.authenticateWithin} s`)),
      TIMES.authenticateWithin * 1000,
    )
    this.#heartbeat = setInterval(() => this.#beat(), TIMES.pingEvery * 1000)
    this.#messages = new Messages(options.ws, (thrown) => this.#crash(thrown))
    countReads(options.socket)
    this.#ws.on('message', (data, isBinary) => this.#messages.add(() => this.#handle(data as Buffer, isBinary)))
    this.#ws.on('pong', () => {
      this.#missed = 0
    })
    this.#ws.on('error', () => {
      if (this.#claims === undefined) terminateSoon(this.#ws)
    })
    this.#ws.on('close', () => this.#dispose())
    const { claims } = options
    if (claims !== undefined) this.#messages.add(() => this.#accept(claims))
  }

  // What the process asks for.

  holdReading(held: boolean): void {
    this.#messages.hold(held)
  }

  finished(ended: ReturnType<typeof endedWith>): void {
    if (this.#verdict === undefined && ended === undefined) return this.close(CLOSE.done)
    this.fail(sessionEnded(ended ?? 'released'))
  }

  report(error: BoxofficeError): void {
    if (this.#closing) return
    this.#count(error)
    const { error: body } = error.envelope(this.#options.requestId)
    this.writer.json({ type: 'error', error: body })
  }

  fail(error: BoxofficeError): void {
    if (this.#closing) return
    // A stream that breaks because the session ends is told as that end.
    const reason = this.#verdict ?? error
    this.report(reason)
    this.close(reason.closeCode, reason.code)
  }

  close(code: number, reason = ''): void {
    if (this.#closing) return
    this.#closing = true
    this.writer.flush()
    this.#ws.close(code, reason.slice(0, MAX_REASON_BYTES))
    if (this.#claims === undefined) terminateSoon(this.#ws)
    this.#dispose()
  }

  /** The agent goes down; a client that does not answer the close is not waited for. */
  shutdown(): void {
    this.close(CLOSE.restart, 'server restart')
  }

  terminate(): void {
    this.#ws.terminate()
  }

  /** The deny-list has changed. */
  recheck(): void {
    const denied = this.#denied()
    if (denied === undefined || this.#closing) return
    // Its key has been withdrawn: what runs goes on for the client that comes back with another token.
    if (denied.code === 'TOKEN_EXPIRED') this.fail(denied)
    else this.#endSession(denied)
  }

  get entitled(): boolean {
    return this.#denied() === undefined
  }

  /** Why this socket may not go on. Expiry has its own time [C-27]. */
  #denied(): BoxofficeError | undefined {
    if (this.#claims === undefined) return undefined
    const { auth, kind } = this.#options
    try {
      auth.recheck(this.#claims)
      if (this.#capable) auth.require(this.#claims, kind)
    } catch (thrown) {
      const error = fromUnknown(thrown)
      if (!isPlainExpiry(error)) return error
    }
    return undefined
  }

  // Frames.

  #crash(thrown: unknown): void {
    const error = fromUnknown(thrown)
    if (!this.#closing) this.#options.refused(error, this.#claims)
    if (error.code === 'INTERNAL')
      this.#options.log.error({ err: error.cause ?? error, request_id: this.#options.requestId }, 'socket failed')
    this.fail(error)
  }

  #handle(data: Buffer, isBinary: boolean): void | Promise<void> {
    if (this.#closing) return
    if (this.#claims === undefined && data.length > LIMITS.messageBytesBeforeAuth) return this.close(CLOSE.tooLarge)
    this.#sandbox?.activity.touch()
    if (isBinary) return this.#handleBinary(data)
    const frame = parseFrame(data.toString())
    if (frame.type === 'auth') return this.#authenticate(frame.token)
    if (frame.type === 'ping') return this.#ping(frame)
    if (this.#claims === undefined || this.#sandbox === undefined)
      throw new BoxofficeError('UNAUTHENTICATED', 'The first frame must be auth')
    if (frame.type === 'unknown')
      return this.report(new BoxofficeError('INVALID_REQUEST', `frame: unknown type ${JSON.stringify(frame.name)}`))
    if (frame.type === 'start') return this.#start(frame, this.#claims, this.#sandbox)
    if (frame.type === 'close') return this.#end()
    if (frame.type === 'resize' && this.#attachment === undefined) return
    if (this.#attachment === undefined)
      throw new BoxofficeError('INVALID_REQUEST', `${frame.type}: there is no process yet; send start first`)
    if (frame.type === 'stdin') this.#attachment.stdin(stdinBytes(frame), frame.eof ?? false)
    else if (frame.type === 'resize') this.#attachment.resize(frame, frame.claim ?? false)
    else this.#attachment.signal(frame.signal)
  }

  #handleBinary(data: Buffer): void {
    if (!this.binary) return this.close(CLOSE.badType, 'binary frames need the subprotocol boxoffice.v1.binary')
    if (this.#claims === undefined) throw new BoxofficeError('UNAUTHENTICATED', 'The first frame must be auth')
    if (data[0] !== STREAM_STDIN) throw new BoxofficeError('INVALID_REQUEST', 'binary frame: its first byte must be 0 (stdin)')
    if (this.#attachment === undefined) throw new BoxofficeError('INVALID_REQUEST', 'stdin: there is no process yet; send start first')
    this.#attachment.stdin(data.subarray(1), data.length === 1)
  }

  // Who.

  async #authenticate(token: string): Promise<void> {
    const claims = await this.#options.auth.authenticate(token, this.#options.sandboxId, this.#claims)
    if (this.#claims === undefined) this.#options.limits.wsOpen(claims)
    allowMessageBytes(this.#ws, LIMITS.messageBytes)
    markAuthenticated(this.#options.socket, { tenant: claims.tid, principal: claims.sub })
    await this.#accept(claims)
    this.#options.opened(claims, token)
  }

  async #accept(claims: SessionTokenClaims): Promise<void> {
    clearTimeout(this.#authLate)
    const sandbox = this.#options.auth.sandbox(claims)
    if (sandbox.lost !== undefined) throw sandboxGone()
    await sandbox.ready(this.#aborter.signal)
    if (this.#closing) return
    // The wait may have been long.
    this.#options.auth.recheck(claims)
    if (this.#sandbox === undefined) this.#offEnd = sandbox.onEnd((end) => this.#onSandboxEnd(end))
    this.#claims = claims
    this.#sandbox = sandbox
    clearTimeout(this.#expiry)
    const remaining = (claims.exp + TIMES.tokenGraceOnSocket - this.#options.now()) * 1000
    this.#expiry = setTimeout(
      () => this.fail(new BoxofficeError('TOKEN_EXPIRED', 'The session token has expired; attach again with a new one')),
      Math.max(0, remaining),
    )
    const granted = this.#options.auth.granted(claims)
    this.writer.json({
      type: 'auth_ok',
      session_id: claims.sid,
      sandbox_id: claims.sandbox_id,
      expires_at: new Date(claims.exp * 1000).toISOString().replace('.000Z', 'Z'),
      granted_capabilities: granted,
    })
    // A renewal that grants less ends what needs more [C-28].
    this.recheck()
    this.#capable ||= granted.includes(this.#options.kind)
  }

  #onSandboxEnd(end: { lost: boolean; reason: string }): void {
    if (end.lost || end.reason === 'failed') {
      this.#verdict = sandboxGone()
      // The process's own stream says so first, where one is open.
      if (this.#attachment?.running !== true) this.fail(this.#verdict)
      else this.#lastWord = setTimeout(() => this.fail(sandboxGone()), LAST_WORD_MS)
    } else this.#endSession(sessionEnded(end.reason))
  }

  /** Ends the work of this socket: what runs is killed, its true exit is told if it comes, then the reason. */
  #endSession(error: BoxofficeError): void {
    if (this.#closing || this.#verdict !== undefined) return
    this.#verdict = error
    const attachment = this.#attachment
    if (attachment?.running !== true || error.code === 'SANDBOX_LOST') return this.fail(error)
    // Only this client's token or right has gone: what others use goes on without it.
    const alone = error.code === 'CAPABILITY_DENIED' || error.code === 'UNAUTHENTICATED'
    if (alone && (attachment.mode === 'viewer' || attachment.shared)) return this.fail(error)
    attachment.kill(killCause(error))
    this.#lastWord = setTimeout(() => this.fail(error), KILL_GRACE_MS + LAST_WORD_MS)
  }

  // What.

  async #start(frame: ClientFrame & { type: 'start' }, claims: SessionTokenClaims, sandbox: Sandbox): Promise<void> {
    if (this.#started) throw new BoxofficeError('INVALID_REQUEST', 'start: a socket carries one process; open another socket')
    const { kind, auth, attachments, limits } = this.#options
    auth.recheck(claims)
    auth.require(claims, kind)
    this.#started = true
    // Before anything is waited for: a sandbox in use is not suspended.
    this.#release = sandbox.activity.attach()
    await sandbox.ready(this.#aborter.signal)
    const begin = await beginning(kind, frame, sandbox)
    if (kind === 'exec' && begin.operation.type === 'start') limits.exec(claims)
    const attachment = new Attachment({ kind, sandbox, beginning: begin, attachments, owner: this })
    if (this.#closing) return
    this.#attachment = attachment
    await attachment.open(this.#aborter.signal)
  }

  #end(): void {
    if (this.#attachment?.running !== true || this.#attachment.detach || this.#attachment.mode === 'viewer') return this.close(CLOSE.done)
    this.#attachment.end()
  }

  #ping(frame: ClientFrame & { type: 'ping' }): void {
    if (this.#claims === undefined && ++this.#earlyPings > PINGS_BEFORE_AUTH) {
      throw new BoxofficeError('RATE_LIMITED', 'Too many pings before auth', { retryAfter: 1 })
    }
    const pong = { type: 'pong', ...('id' in frame ? { id: frame.id } : {}), ...('ts' in frame ? { ts: frame.ts } : {}) }
    const attachment = this.#attachment
    if (attachment === undefined || (frame.stdout_offset === undefined && frame.stderr_offset === undefined)) return this.writer.json(pong)
    attachment.report(frame.stdout_offset, frame.stderr_offset)
    void attachment
      .stdinOffset()
      .catch(() => undefined)
      .then((offset) => this.writer.json(offset === undefined ? pong : { ...pong, stdin_offset: offset }))
  }

  /**
   * A peer that has missed two pings is gone [C-68]. While we do not read it, it cannot be heard; while it does not read us, no ping
   * reaches it, and the limit of a stalled reader holds [4-134].
   */
  #beat(): void {
    this.#attachment?.checkProgress()
    if (this.#messages.paused || this.writer.backlog > 0) return
    if (this.#missed >= MISSED_PINGS) return this.terminate()
    this.#missed++
    this.#ws.ping()
  }

  #dispose(): void {
    this.#closing = true
    this.#aborter.abort(new BoxofficeError('INVALID_REQUEST', 'The client closed the connection'))
    for (const timer of [this.#authLate, this.#expiry, this.#lastWord]) clearTimeout(timer)
    clearInterval(this.#heartbeat)
    this.#offEnd?.()
    this.#attachment?.dispose()
    this.#release?.()
    this.#release = undefined
    this.#messages.stop()
  }

  #count(error: BoxofficeError): void {
    this.#options.metrics.errors.labels(error.code).inc()
  }
}
