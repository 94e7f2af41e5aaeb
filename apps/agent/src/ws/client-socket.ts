import type { Duplex } from 'node:stream'
import { allowMessageBytes, hintReads, markAuthenticated } from '@boxoffice/node-http'
import { BoxofficeError, CLOSE, fromUnknown, LIMITS, type SessionTokenClaims, STREAM_STDIN } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { WebSocket } from 'ws'
import type { Authenticator } from '../auth/auth.ts'
import type { DataplaneLimits } from '../http/dataplane-limits.ts'
import { type endedWith, KILL_GRACE_MS, killCause } from '../http/ended.ts'
import type { DataplaneMetrics } from '../http/metrics.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { Attachment, type AttachmentOwner } from './attachment.ts'
import type { Attachments } from './attachments.ts'
import { beginning } from './begin.ts'
import type { Dialect } from './dialect.ts'
import { type ClientFrame, type SocketKind, stdinBytes } from './frames.ts'
import { authOk } from './session/auth-ok.ts'
import { sandboxGone, sessionEnded } from './session/session-end.ts'
import { SocketSession, type SocketTraffic } from './session/socket-session.ts'
import { SocketWriter } from './writer.ts'

export type ClientSocketOptions = {
  ws: WebSocket
  socket: Duplex
  kind: SocketKind
  /** Subprotocol `boxoffice.v1.binary`: data travels as binary messages. */
  binary: boolean
  dialect: Dialect
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
/** How long the process's own end may take to arrive before the socket is closed without it. */
const LAST_WORD_MS = 2000

/** The frames of one exec or shell, in their order. Who the client is and how the socket ends is `SocketSession`'s, the process `Attachment`'s. */
export class ClientSocket implements AttachmentOwner, SocketTraffic {
  readonly session: SocketSession
  readonly writer: SocketWriter
  readonly binary: boolean
  readonly #options: ClientSocketOptions
  #attachment: Attachment | undefined
  #started = false
  #earlyPings = 0

  constructor(options: ClientSocketOptions) {
    this.#options = options
    this.binary = options.binary
    this.writer = new SocketWriter(options.ws, options.socket, options.dialect)
    hintReads(options.socket)
    this.session = new SocketSession({ ws: options.ws, auth: options.auth, now: options.now, traffic: this })
    const { claims } = options
    if (claims !== undefined) this.session.enqueue(() => this.#accept(claims))
  }

  // What the process asks for.

  get entitled(): boolean {
    return this.session.denied() === undefined
  }

  holdReading(held: boolean): void {
    this.session.holdReading(held)
  }

  finished(ended: ReturnType<typeof endedWith>): void {
    if (this.session.verdict === undefined && ended === undefined) return this.session.close(CLOSE.done)
    this.fail(sessionEnded(ended ?? 'released'))
  }

  report(error: BoxofficeError): void {
    if (!this.session.closing) this.tell(error)
  }

  fail(error: BoxofficeError): void {
    this.session.fail(error)
  }

  // What the session asks for.

  get backlog(): number {
    return this.writer.backlog
  }

  checkProgress(): void {
    this.#attachment?.checkProgress()
  }

  tell(error: BoxofficeError): number {
    this.#options.metrics.errors.labels(error.code).inc()
    this.writer.json({ type: 'error', error: error.envelope(this.#options.requestId).error })
    return error.closeCode
  }

  flush(): void {
    this.writer.flush()
  }

  dispose(): void {
    this.#attachment?.dispose()
  }

  thrown(thrown: unknown): void {
    const error = fromUnknown(thrown)
    if (!this.session.closing) this.#options.refused(error, this.session.claims)
    if (error.code === 'INTERNAL')
      this.#options.log.error({ err: error.cause ?? error, request_id: this.#options.requestId }, 'socket failed')
    this.fail(error)
  }

  lost(error: BoxofficeError): void {
    // The process's own stream says so first, where one is open.
    this.session.end(error, this.#attachment?.running === true ? LAST_WORD_MS : 0)
  }

  /** Ends the work of this socket: what runs is killed, its true exit is told if it comes, then the reason. */
  ending(error: BoxofficeError): void {
    // Its key has been withdrawn: what runs goes on for the client that comes back with another token.
    if (error.code === 'TOKEN_EXPIRED') return this.fail(error)
    if (this.session.closing || this.session.verdict !== undefined) return
    const attachment = this.#attachment
    if (attachment?.running !== true || error.code === 'SANDBOX_LOST') return this.session.end(error, 0)
    // Only this client's token or right has gone: what others use goes on without it.
    const alone = error.code === 'CAPABILITY_DENIED' || error.code === 'UNAUTHENTICATED'
    if (alone && (attachment.mode === 'viewer' || attachment.shared)) return this.session.end(error, 0)
    this.session.end(error, KILL_GRACE_MS + LAST_WORD_MS)
    attachment.kill(killCause(error))
  }

  message(data: Buffer, isBinary: boolean): void | Promise<void> {
    const { claims, sandbox } = this.session
    if (claims === undefined && data.length > LIMITS.messageBytesBeforeAuth) return this.session.close(CLOSE.tooLarge)
    sandbox?.activity.touch()
    if (isBinary) return this.#handleBinary(data)
    const frame = this.#options.dialect.read(data.toString())
    if (frame.type === 'auth') return this.#authenticate(frame.token)
    if (frame.type === 'ping') return this.#ping(frame)
    if (claims === undefined || sandbox === undefined) throw new BoxofficeError('UNAUTHENTICATED', 'The first frame must be auth')
    if (frame.type === 'unknown')
      return this.report(new BoxofficeError('INVALID_REQUEST', `frame: unknown type ${JSON.stringify(frame.name)}`))
    if (frame.type === 'start') return this.#start(frame, claims, sandbox)
    if (frame.type === 'close') return this.#end()
    if (frame.type === 'resize' && this.#attachment === undefined) return
    if (this.#attachment === undefined)
      throw new BoxofficeError('INVALID_REQUEST', `${frame.type}: there is no process yet; send start first`)
    if (frame.type === 'stdin') this.#attachment.stdin(stdinBytes(frame), frame.eof ?? false)
    else if (frame.type === 'resize') this.#attachment.resize(frame, frame.claim ?? false)
    else this.#attachment.signal(frame.signal)
  }

  #handleBinary(data: Buffer): void {
    if (!this.binary) return this.session.close(CLOSE.badType, 'binary frames need the subprotocol boxoffice.v1.binary')
    if (this.session.claims === undefined) throw new BoxofficeError('UNAUTHENTICATED', 'The first frame must be auth')
    if (data[0] !== STREAM_STDIN) throw new BoxofficeError('INVALID_REQUEST', 'binary frame: its first byte must be 0 (stdin)')
    if (this.#attachment === undefined) throw new BoxofficeError('INVALID_REQUEST', 'stdin: there is no process yet; send start first')
    this.#attachment.stdin(data.subarray(1), data.length === 1)
  }

  // Who.

  async #authenticate(token: string): Promise<void> {
    const claims = await this.#options.auth.authenticate(token, this.#options.sandboxId, this.session.claims)
    if (this.session.claims === undefined) this.#options.limits.wsOpen(claims)
    allowMessageBytes(this.#options.ws, LIMITS.messageBytes)
    markAuthenticated(this.#options.socket, { tenant: claims.tid, principal: claims.sub })
    await this.#accept(claims)
    this.#options.opened(claims, token)
  }

  async #accept(claims: SessionTokenClaims): Promise<void> {
    const { auth, kind } = this.#options
    this.session.authenticated()
    const sandbox = auth.sandbox(claims)
    if (sandbox.lost !== undefined) throw sandboxGone()
    await sandbox.ready(this.session.signal)
    if (this.session.closing) return
    // The wait may have been long.
    auth.recheck(claims)
    this.session.admit(claims, sandbox)
    const granted = auth.granted(claims)
    this.writer.json(authOk(claims, granted))
    // A renewal that grants less ends what needs more [C-28].
    this.session.recheck()
    // Its token has granted what this kind of socket needs: from now on, losing that ends it [C-57].
    if (granted.includes(kind)) this.session.require(kind)
  }

  // What.

  async #start(frame: ClientFrame & { type: 'start' }, claims: SessionTokenClaims, sandbox: Sandbox): Promise<void> {
    if (this.#started) throw new BoxofficeError('INVALID_REQUEST', 'start: a socket carries one process; open another socket')
    const { kind, auth, attachments, limits } = this.#options
    auth.recheck(claims)
    auth.require(claims, kind)
    this.#started = true
    // Before anything is waited for: a sandbox in use is not suspended.
    this.session.use(sandbox)
    await sandbox.ready(this.session.signal)
    const begin = await beginning(kind, frame, sandbox)
    if (kind === 'exec' && begin.operation.type === 'start') limits.exec(claims)
    const attachment = new Attachment({ kind, sandbox, beginning: begin, attachments, owner: this })
    if (this.session.closing) return
    this.#attachment = attachment
    await attachment.open(this.session.signal)
  }

  #end(): void {
    if (this.#attachment?.running !== true || this.#attachment.detach || this.#attachment.mode === 'viewer')
      return this.session.close(CLOSE.done)
    this.#attachment.end()
  }

  #ping(frame: ClientFrame & { type: 'ping' }): void {
    if (this.session.claims === undefined && ++this.#earlyPings > PINGS_BEFORE_AUTH) {
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
}
