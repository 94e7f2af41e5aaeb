import { BoxofficeError, CLOSE, fromUnknown, LinesClientFrame, type SessionTokenClaims, TIMES } from '@boxoffice/protocol'
import type { WebSocket } from 'ws'
import { type Authenticator, isPlainExpiry } from '../auth/auth.ts'
import type { AttachLease, LeaseHolder } from '../sandbox/managed-processes.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { LineStream } from './line-stream.ts'
import { Messages } from './messages.ts'
import { sandboxGone, sessionEnded } from './session-end.ts'

export type ProcessSocketOptions = {
  ws: WebSocket
  /** Binary messages are control frames (`boxoffice.v1.lines`). */
  control: boolean
  lease: AttachLease
  /** Where its stdout begins for this client, and what is lost before that. */
  from: number | 'end'
  gap: { from: number; to: number } | undefined
  sandbox: Sandbox
  claims: SessionTokenClaims
  requestId: string
  auth: Authenticator
  /** Unix seconds by the broker's clock. */
  now: () => number
}

const MISSED_PINGS = 2
const MAX_REASON_BYTES = 120
const DROPPED = 1006

/** The socket of one managed process (packages/protocol/src/processes.ts): its lines, its token's time, and its ends. */
export class ProcessSocket implements LeaseHolder {
  readonly #options: ProcessSocketOptions
  readonly #ws: WebSocket
  readonly #aborter = new AbortController()
  readonly #messages: Messages
  readonly #lines: LineStream
  readonly #heartbeat: NodeJS.Timeout
  readonly #release: () => void
  readonly #offEnd: () => void
  #claims: SessionTokenClaims
  #expiry: NodeJS.Timeout | undefined
  #closing = false
  #missed = 0

  constructor(options: ProcessSocketOptions) {
    this.#options = options
    this.#ws = options.ws
    this.#claims = options.claims
    const { sandbox, lease, from } = options
    this.#lines = new LineStream({
      ...{ ws: options.ws, sandbox, lease, from, reports: options.control },
      ready: (stdout, stdin) => this.#ready(stdout, stdin),
      exited: () => this.close(CLOSE.done),
      failed: (error) => this.fail(error),
    })
    this.#messages = new Messages(options.ws, (thrown) => this.fail(fromUnknown(thrown)))
    this.#release = sandbox.activity.attach()
    this.#offEnd = sandbox.onEnd((end) => this.fail(end.lost || end.reason === 'failed' ? sandboxGone() : sessionEnded(end.reason)))
    this.#heartbeat = setInterval(() => this.#beat(), TIMES.pingEvery * 1000)
    this.#ws.on('message', (data, isBinary) => this.#messages.add(() => this.#onMessage(data as Buffer, isBinary)))
    this.#ws.on('pong', () => {
      this.#missed = 0
    })
    this.#ws.on('error', () => {})
    this.#ws.on('close', (code) => this.#dispose(code === DROPPED || code === CLOSE.restart))
    this.#expire()
    // Lines that come before the process is there wait.
    this.#messages.add(() => this.#lines.open(this.#aborter.signal))
  }

  takenOver(): void {
    this.fail(new BoxofficeError('TAKEN_OVER', 'Another socket has attached to this process in the place of this one'))
  }

  fail(error: BoxofficeError): void {
    if (this.#closing) return
    // Among the lines it would be one of the process's.
    this.#control({ type: 'error', error: error.envelope(this.#options.requestId).error })
    this.close(error.code === 'PAYLOAD_TOO_LARGE' ? CLOSE.tooLarge : error.closeCode, error.code)
  }

  close(code: number, reason = ''): void {
    if (this.#closing) return
    this.#ws.close(code, reason.slice(0, MAX_REASON_BYTES))
    this.#dispose(code === CLOSE.restart)
  }

  shutdown(): void {
    this.close(CLOSE.restart, 'server restart')
  }

  terminate(): void {
    this.#ws.terminate()
  }

  /** The deny-list has changed. */
  recheck(): void {
    const { auth } = this.#options
    try {
      auth.recheck(this.#claims)
      auth.require(this.#claims, 'exec')
    } catch (thrown) {
      const error = fromUnknown(thrown)
      if (!isPlainExpiry(error)) this.fail(error)
    }
  }

  #ready(stdout: number, stdin: number): void {
    const { lease, from } = this.#options
    // What a process that was not held up has overwritten since it was asked.
    const gap = from !== 'end' && stdout > from ? { from: this.#options.gap?.from ?? from, to: stdout } : this.#options.gap
    this.#control({
      type: 'ready',
      process_id: lease.processId,
      run: lease.run,
      stdout: { offset: stdout, ...(gap === undefined ? {} : { gap }) },
      stdin: { offset: stdin },
    })
  }

  #onMessage(data: Buffer, isBinary: boolean): void | Promise<void> {
    if (this.#closing) return
    this.#options.sandbox.activity.touch()
    if (!isBinary) return this.#lines.write(data.at(-1) === NEWLINE ? data : Buffer.concat([data, NEWLINE_BYTES]))
    if (!this.#options.control) return this.close(CLOSE.badType, 'binary messages need the subprotocol boxoffice.v1.lines')
    return this.#onControl(parseFrame(data))
  }

  async #onControl(frame: LinesClientFrame): Promise<void> {
    if (frame.type === 'stdin') return this.#lines.write(Buffer.from(frame.data, 'base64'))
    if (frame.type === 'ping') {
      this.#lines.report(frame.stdout_offset)
      const offset = await this.#lines.stdinOffset()
      if (offset !== undefined) this.#control({ type: 'pong', stdin_offset: offset })
      return
    }
    this.#claims = await this.#options.auth.authenticate(frame.token, this.#options.sandbox.id, this.#claims)
    this.#expire()
    this.#control({ type: 'auth_ok' })
    this.recheck()
  }

  #control(frame: object): void {
    if (this.#options.control && !this.#closing) this.#ws.send(Buffer.from(JSON.stringify(frame)), { binary: true })
  }

  /** [C-27] */
  #expire(): void {
    clearTimeout(this.#expiry)
    const remaining = (this.#claims.exp + TIMES.tokenGraceOnSocket - this.#options.now()) * 1000
    this.#expiry = setTimeout(
      () => this.fail(new BoxofficeError('TOKEN_EXPIRED', 'The session token has expired; attach again with a new one')),
      Math.max(0, remaining),
    )
  }

  /** A peer that has missed two pings is gone [C-68]; one that is not read, or does not read, cannot be heard. */
  #beat(): void {
    this.#lines.checkProgress()
    if (this.#messages.paused || this.#ws.bufferedAmount > 0) return
    if (this.#missed >= MISSED_PINGS) return this.terminate()
    this.#missed++
    this.#ws.ping()
  }

  #dispose(lost: boolean): void {
    if (this.#closing) return
    this.#closing = true
    this.#aborter.abort(new BoxofficeError('INVALID_REQUEST', 'The client closed the connection'))
    clearTimeout(this.#expiry)
    clearInterval(this.#heartbeat)
    this.#offEnd()
    this.#release()
    this.#messages.stop()
    this.#lines.leave(lost)
  }
}

const NEWLINE = 0x0a
const NEWLINE_BYTES = Buffer.of(NEWLINE)

const parseFrame = (data: Buffer): LinesClientFrame => {
  try {
    return LinesClientFrame.parse(JSON.parse(data.toString()))
  } catch (cause) {
    throw new BoxofficeError('INVALID_REQUEST', 'frame: a binary message must be one of the control frames auth, ping and stdin', { cause })
  }
}
