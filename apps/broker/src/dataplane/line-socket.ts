import { ResendBuffer } from '@boxoffice/kit/resend-buffer'
import { type BoxofficeError, type LinesClientFrame, LinesServerFrame, PROCESS_LIMITS, SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import type { WebSocket } from 'ws'
import { type DialOptions, frameError, readFrame } from './agent-socket.ts'
import { MendedSocket, type MendedSocketOptions, type MendedTraffic } from './mended-socket.ts'

export type LineSocketHandlers = {
  line(line: string): void
  /** After a `send` that answered false: there is room again. */
  drain?(): void
  /** Once, last. Without an error the process has ended, or `close` was called. */
  closed(error?: BoxofficeError): void
}

/** A managed process's stdin and stdout, as lines. */
export interface LineSocket {
  /** Without its newline, which is added. False: more is waiting than the network takes at once, and `drain` comes when it has. */
  send(line: string): boolean
  /** Backpressure: no lines until `resume`. */
  pause(): void
  resume(): void
  /** Leaves the process, which goes on. */
  close(): void
}

export type LineSocketOptions = MendedSocketOptions & {
  /** Below the sandbox. */
  path: string
  handlers: LineSocketHandlers
  takeover: boolean
}

const CONFIRM_EVERY_MS = 1000
const CONFIRM_BYTES = 256 * 1024
const HIGH_WATER_BYTES = 1024 * 1024

/** Opens it; rejects with the agent's refusal. */
export async function openLineSocket(options: LineSocketOptions): Promise<LineSocket> {
  const connection = new MendingLineSocket(options)
  await connection.open()
  return connection
}

class MendingLineSocket implements LineSocket, MendedTraffic {
  readonly #path: string
  readonly #takeover: boolean
  readonly #handlers: LineSocketHandlers
  readonly #socket: MendedSocket
  readonly #resend = new ResendBuffer()
  #run: string | undefined
  #full = false
  #confirm: NodeJS.Timeout | undefined

  constructor({ path, takeover, handlers, ...options }: LineSocketOptions) {
    this.#path = path
    this.#takeover = takeover
    this.#handlers = handlers
    this.#socket = new MendedSocket(options, this)
  }

  open(): Promise<void> {
    return this.#socket.open()
  }

  send(line: string): boolean {
    if (this.#socket.isClosed) return true
    this.#resend.sent(line)
    this.#confirm ??= setInterval(() => this.#askForConfirmation(), CONFIRM_EVERY_MS)
    this.#socket.ws?.send(line, this.#written)
    if (this.#resend.unconfirmedBytes > CONFIRM_BYTES) this.#askForConfirmation()
    // While the connection is being mended, the resend buffer has it.
    this.#full = (this.#socket.ws?.bufferedAmount ?? this.#resend.unconfirmedBytes) >= HIGH_WATER_BYTES
    return !this.#full
  }

  readonly #written = (): void => {
    if (!this.#full || (this.#socket.ws?.bufferedAmount ?? HIGH_WATER_BYTES) > HIGH_WATER_BYTES / 2) return
    this.#full = false
    this.#handlers.drain?.()
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  close(): void {
    this.#socket.leave()
  }

  // What the socket asks for.

  dial(): Pick<DialOptions, 'path' | 'protocol' | 'maxPayload'> {
    const isAgain = this.#run !== undefined
    const search = new URLSearchParams({ takeover: String(this.#takeover || isAgain) })
    if (this.#run !== undefined) {
      search.set('run', this.#run)
      search.set('stdout_offset', String(this.#resend.received))
    }
    return { path: `${this.#path}?${search}`, protocol: SUBPROTOCOL_LINES, maxPayload: PROCESS_LIMITS.lineBytes + 1024 }
  }

  message(ws: WebSocket, data: Buffer, isBinary: boolean): void {
    if (!isBinary) return this.#onLine(String(data))
    const frame = readFrame(ws, LinesServerFrame, data)
    if (frame?.type === 'ready') {
      this.#socket.begin(ws)
      this.#onReady(frame)
    } else if (frame?.type === 'pong') this.#resend.confirmed(frame.stdin_offset)
    else if (frame?.type === 'error') this.#socket.told(frameError(frame.error))
  }

  renewed(token: string): void {
    this.#control({ type: 'auth', token })
  }

  /** A process that has ended meanwhile is no error; how it ended, its record tells. */
  givenUp(error: BoxofficeError): BoxofficeError | undefined {
    return error.code === 'PROCESS_NOT_RUNNING' ? undefined : error
  }

  closed(error?: BoxofficeError): void {
    clearInterval(this.#confirm)
    this.#handlers.closed(error)
  }

  #onReady({ run, stdout, stdin }: LinesServerFrame & { type: 'ready' }): void {
    this.#socket.ready()
    if (this.#run === undefined) this.#resend.begin(stdout.offset, stdin.offset)
    else for (const bytes of this.#resend.resume(stdout.offset, stdin.offset)) this.#control({ type: 'stdin', data: toBase64(bytes) })
    this.#run = run
    this.#written()
  }

  #onLine(line: string): void {
    if (this.#resend.got(line)) this.#ping()
    this.#handlers.line(line)
  }

  #askForConfirmation(): void {
    if (this.#resend.unconfirmedBytes > 0) return this.#ping()
    clearInterval(this.#confirm)
    this.#confirm = undefined
  }

  #ping(): void {
    this.#control({ type: 'ping', stdout_offset: this.#resend.received })
  }

  #control(frame: LinesClientFrame): void {
    this.#socket.readyWs?.send(Buffer.from(JSON.stringify(frame)), { binary: true }, this.#written)
  }
}

const toBase64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')
