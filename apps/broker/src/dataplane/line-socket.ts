import { ResendBuffer } from '@boxoffice/kit/resend-buffer'
import {
  BoxofficeError,
  errorCodeFrom,
  type LinesClientFrame,
  LinesServerFrame,
  PROCESS_LIMITS,
  SUBPROTOCOL_LINES,
} from '@boxoffice/protocol'
import { WebSocket } from 'ws'
import type { AgentTls } from '../relay/http1/agent-tls.ts'
import type { Access } from './access.ts'
import { SOCKET_CLOSE as CLOSE, dialAgent, mend, readFrame, renewLater, unreachable } from './agent-socket.ts'

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

export type LineSocketOptions = {
  access: () => Promise<Access>
  /** Below the sandbox. */
  path: string
  handlers: LineSocketHandlers
  takeover: boolean
  signal: AbortSignal | undefined
  /** Milliseconds that never jump. */
  monotonic: () => number
  agentTls?: AgentTls
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

class MendingLineSocket implements LineSocket {
  readonly #options: LineSocketOptions
  readonly #resend = new ResendBuffer()
  #ws: WebSocket | undefined
  #run: string | undefined
  #error: BoxofficeError | undefined
  #closed = false
  #paused = false
  #full = false
  #confirm: NodeJS.Timeout | undefined
  #renew: NodeJS.Timeout | undefined

  constructor(options: LineSocketOptions) {
    this.#options = options
    options.signal?.addEventListener('abort', () => this.close(), { once: true })
  }

  open(): Promise<void> {
    this.#options.signal?.throwIfAborted()
    return this.#connect(this.#options.takeover)
  }

  send(line: string): boolean {
    if (this.#closed) return true
    this.#resend.sent(line)
    this.#confirm ??= setInterval(() => this.#askForConfirmation(), CONFIRM_EVERY_MS)
    this.#ws?.send(line, this.#written)
    if (this.#resend.unconfirmedBytes > CONFIRM_BYTES) this.#askForConfirmation()
    // While the connection is being mended, the resend buffer has it.
    this.#full = (this.#ws?.bufferedAmount ?? this.#resend.unconfirmedBytes) >= HIGH_WATER_BYTES
    return !this.#full
  }

  readonly #written = (): void => {
    if (!this.#full || (this.#ws?.bufferedAmount ?? HIGH_WATER_BYTES) > HIGH_WATER_BYTES / 2) return
    this.#full = false
    this.#options.handlers.drain?.()
  }

  pause(): void {
    this.#paused = true
    this.#ws?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#ws?.resume()
  }

  close(): void {
    this.#ws?.resume()
    this.#ws?.close(CLOSE.done)
    this.#end()
  }

  async #connect(takeover: boolean): Promise<void> {
    const { access, path, agentTls } = this.#options
    const known = await access()
    const search = new URLSearchParams({ takeover: String(takeover) })
    if (this.#run !== undefined) {
      search.set('run', this.#run)
      search.set('stdout_offset', String(this.#resend.received))
    }
    const ready = Promise.withResolvers<void>()
    let isReady = false
    const ws = dialAgent(known, {
      path: `${path}?${search}`,
      protocol: SUBPROTOCOL_LINES,
      maxPayload: PROCESS_LIMITS.lineBytes + 1024,
      agentTls,
      refused: ready.reject,
    })
    ws.on('message', (data, isBinary) => {
      if (!isBinary) return this.#onLine(String(data))
      const frame = readFrame(ws, LinesServerFrame, data)
      if (frame?.type === 'ready') {
        isReady = true
        this.#onReady(ws, frame)
        ready.resolve()
      } else if (frame?.type === 'pong') this.#resend.confirmed(frame.stdin_offset)
      else if (frame?.type === 'error')
        this.#error = new BoxofficeError(errorCodeFrom(frame.error.code) ?? 'BACKEND_UNAVAILABLE', frame.error.message)
    })
    ws.on('close', (code) => {
      ready.reject(unreachable(code))
      if (isReady && this.#ws === ws) this.#onClose(code)
    })
    await ready.promise
    if (this.#closed) return ws.close(CLOSE.done)
    this.#renewLater(known.expiresAt)
  }

  #onReady(ws: WebSocket, { run, stdout, stdin }: LinesServerFrame & { type: 'ready' }): void {
    this.#ws = ws
    this.#error = undefined
    if (this.#paused) ws.pause()
    if (this.#run === undefined) this.#resend.begin(stdout.offset, stdin.offset)
    else for (const bytes of this.#resend.resume(stdout.offset, stdin.offset)) this.#control({ type: 'stdin', data: toBase64(bytes) })
    this.#run = run
    this.#written()
  }

  #onLine(line: string): void {
    if (this.#closed) return
    if (this.#resend.got(line)) this.#ping()
    this.#options.handlers.line(line)
  }

  #onClose(code: number): void {
    this.#ws = undefined
    if (this.#closed) return
    if (code === CLOSE.done) return this.#end()
    if (code === CLOSE.lost || code === CLOSE.goingAway || this.#error?.code === 'TOKEN_EXPIRED') return void this.#mend()
    this.#end(this.#error ?? unreachable(code))
  }

  async #mend(): Promise<void> {
    try {
      await mend(
        () => this.#connect(true),
        () => this.#closed,
      )
    } catch (thrown) {
      const error = errorOf(thrown)
      // It has ended meanwhile; how, its record tells.
      this.#end(error.code === 'PROCESS_NOT_RUNNING' ? undefined : error)
    }
  }

  #renewLater(expiresAt: number): void {
    clearTimeout(this.#renew)
    this.#renew = renewLater(this.#options, expiresAt, ({ token, expiresAt: next }) => {
      if (this.#closed) return
      this.#control({ type: 'auth', token })
      this.#renewLater(next)
    })
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
    if (this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(Buffer.from(JSON.stringify(frame)), { binary: true }, this.#written)
  }

  #end(error?: BoxofficeError): void {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#confirm)
    clearTimeout(this.#renew)
    this.#options.handlers.closed(error)
  }
}

const toBase64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')

const errorOf = (thrown: unknown): BoxofficeError => (thrown instanceof BoxofficeError ? thrown : unreachable(thrown))
