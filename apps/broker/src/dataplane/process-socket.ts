import { randomUUID } from 'node:crypto'
import {
  BoxofficeError,
  type ExitFrame,
  errorCodeFrom,
  type ReadyFrame,
  ServerFrame,
  type SIGNALS,
  STREAM_STDERR,
  STREAM_STDIN,
  STREAM_STDOUT,
  SUBPROTOCOL_BINARY,
} from '@boxoffice/protocol'
import { WebSocket } from 'ws'
import type { AgentTls } from '../relay/http1/agent-tls.ts'
import type { Access } from './access.ts'
import { dialAgent, mend, readFrame, renewLater, SOCKET_CLOSE, unreachable } from './agent-socket.ts'
import { StdinBuffer } from './stdin-buffer.ts'

/**
 * A process: `kind` says whether it is a command or a terminal, `frame` has the fields of `start` (contract 3.3). A frame with `attach`
 * joins a process that runs, at its offsets; a frame without it starts one.
 */
export type ProcessStart = { kind: 'exec' | 'shell'; frame: Readonly<Record<string, unknown>> }

export type ProcessSocketHandlers = {
  /** After each connection, the first one included: `attached` is true where the process was there before. */
  ready(frame: ReadyFrame): void
  /** Bytes of a stream; `offset` is that of the first one. A buffer of its own. */
  output(stream: 'stdout' | 'stderr', bytes: Buffer, offset: number): void
  /** How it ended. `closed` follows. */
  exit(frame: ExitFrame): void
  /** An error that does not end the connection. */
  told?(error: BoxofficeError): void
  /** After a `write` that gave false: there is room again. */
  drain?(): void
  /** Once, last. Without an error the process has ended, or `leave` was called. */
  closed(error?: BoxofficeError): void
}

/** A hold on one process of a sandbox, over as many connections as it takes. */
export interface ProcessSocket {
  /** Its exec id or shell id. */
  readonly id: string
  /** Gives it stdin; false: more is waiting than the agent takes at once, and `drain` comes when it has. */
  write(bytes: Uint8Array): boolean
  /** The end of stdin. */
  endInput(): void
  signal(signal: (typeof SIGNALS)[number]): void
  resize(size: { cols: number; rows: number }): void
  /** Backpressure: no output until `resume`. */
  pause(): void
  resume(): void
  /** Leaves the process, which goes on by the rules of its `start`. */
  leave(): void
}

export type ProcessSocketOptions = {
  access: () => Promise<Access>
  start: ProcessStart
  handlers: ProcessSocketHandlers
  signal: AbortSignal | undefined
  /** Milliseconds that never jump. */
  monotonic: () => number
  agentTls?: AgentTls
}

const MAX_MESSAGE_BYTES = 16 * 1024 * 1024
/** The agent is told what has arrived this often: what a drop takes with it is then kept for the next connection. */
const REPORT_BYTES = 128 * 1024
const REPORT_EVERY_MS = 1000
const HIGH_WATER_BYTES = 256 * 1024
const MAX_WAITING = 100

/** Opens it. Resolves once the process runs, or has ended without; rejects with the agent's refusal. */
export async function openProcessSocket(options: ProcessSocketOptions): Promise<ProcessSocket> {
  const connection = new MendingProcessSocket(options)
  await connection.open()
  return connection
}

class MendingProcessSocket implements ProcessSocket {
  readonly id: string
  readonly #options: ProcessSocketOptions
  readonly #idField: 'exec_id' | 'shell_id'
  readonly #stdin = new StdinBuffer()
  readonly #received = { stdout: 0, stderr: 0 }
  #reported = 0
  #ws: WebSocket | undefined
  #wasReady = false
  /** The present connection is: before, what is written waits for it. */
  #isReady = false
  #ended = false
  #error: BoxofficeError | undefined
  #closed = false
  #paused = false
  #full = false
  /** Control frames that wait for a connection; above `MAX_WAITING` they are dropped. */
  #waiting: object[] = []
  #report: NodeJS.Timeout | undefined
  #renew: NodeJS.Timeout | undefined

  constructor(options: ProcessSocketOptions) {
    this.#options = options
    const { kind, frame } = options.start
    this.#idField = kind === 'exec' ? 'exec_id' : 'shell_id'
    this.id = String(frame.attach ?? frame[this.#idField] ?? randomUUID())
    options.signal?.addEventListener('abort', () => this.leave(), { once: true })
  }

  open(): Promise<void> {
    this.#options.signal?.throwIfAborted()
    return this.#connect()
  }

  write(bytes: Uint8Array): boolean {
    if (this.#closed || bytes.length === 0) return true
    for (const piece of this.#stdin.add(bytes)) this.#sendInput(piece)
    this.#full = this.#stdin.unconfirmedBytes >= HIGH_WATER_BYTES
    this.#reportLater()
    if (this.#full) this.#ping()
    return !this.#full
  }

  endInput(): void {
    this.#stdin.end()
    this.#sendInput(new Uint8Array())
  }

  signal(signal: (typeof SIGNALS)[number]): void {
    this.#control({ type: 'signal', signal })
  }

  resize(size: { cols: number; rows: number }): void {
    this.#control({ type: 'resize', ...size, claim: true })
  }

  pause(): void {
    this.#paused = true
    this.#ws?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#ws?.resume()
  }

  leave(): void {
    this.#ws?.resume()
    this.#ws?.close(SOCKET_CLOSE.done)
    this.#end()
  }

  async #connect(): Promise<void> {
    const { access, start, agentTls } = this.#options
    const known = await access()
    const ready = Promise.withResolvers<void>()
    const ws = dialAgent(known, {
      path: `/${start.kind}/ws`,
      protocol: SUBPROTOCOL_BINARY,
      maxPayload: MAX_MESSAGE_BYTES,
      agentTls,
      refused: ready.reject,
    })
    this.#error = undefined
    ws.on('message', (data: Buffer, isBinary) => {
      if (this.#closed) return
      if (isBinary) return this.#onOutput(data)
      const frame = readFrame(ws, ServerFrame, data)
      if (frame?.type === 'auth_ok') {
        if (this.#ws !== ws) ws.send(JSON.stringify(this.#startFrame()))
        this.#ws = ws
      } else if (frame?.type === 'ready') {
        this.#onReady(ws, frame)
        ready.resolve()
      } else if (frame?.type === 'pong') this.#onConfirmed(frame.stdin_offset)
      else if (frame?.type === 'exit') {
        this.#ended = true
        ready.resolve()
        this.#options.handlers.exit(frame)
      } else if (frame?.type === 'error') this.#onError(frame.error)
    })
    ws.on('close', (code) => {
      ready.reject(this.#error ?? unreachable(code))
      if (this.#ws === ws) this.#onClose(code)
    })
    await ready.promise
    if (this.#closed) return ws.close(SOCKET_CLOSE.done)
    this.#renewLater(known.expiresAt)
  }

  /** After the first `ready` only ever an attach: were the record gone, starting again would run the command twice. */
  #startFrame(): object {
    const { frame } = this.#options.start
    if (!this.#wasReady) return { type: 'start', [this.#idField]: this.id, ...frame, ack: true }
    const { stdout, stderr } = this.#received
    const { mode } = frame
    return {
      type: 'start',
      attach: this.id,
      stdout_offset: stdout,
      stderr_offset: stderr,
      ack: true,
      ...(mode === undefined ? {} : { mode }),
    }
  }

  #onReady(ws: WebSocket, frame: ReadyFrame): void {
    this.#received.stdout = frame.stdout.offset
    this.#received.stderr = frame.stderr.offset
    if (this.#paused) ws.pause()
    const stdin = frame.stdin?.offset ?? 0
    this.#isReady = true
    // Others may have written to a process that was there before.
    if (!this.#wasReady) this.#stdin.begin(stdin)
    for (const bytes of this.#stdin.missingFrom(stdin)) this.#sendInput(bytes)
    if (this.#stdin.isEnded) this.#sendInput(new Uint8Array())
    this.#wasReady = true
    for (const waiting of this.#waiting.splice(0)) this.#control(waiting)
    this.#options.handlers.ready(frame)
    this.#onConfirmed(stdin)
  }

  #onOutput(data: Buffer): void {
    const stream = data[0] === STREAM_STDOUT ? 'stdout' : data[0] === STREAM_STDERR ? 'stderr' : undefined
    if (stream === undefined) return
    const offset = this.#received[stream]
    this.#received[stream] += data.length - 1
    this.#reported += data.length - 1
    if (this.#reported >= REPORT_BYTES) this.#ping()
    this.#options.handlers.output(stream, data.subarray(1), offset)
  }

  #onConfirmed(offset: number | undefined): void {
    if (offset !== undefined) this.#stdin.confirm(offset)
    if (!this.#full || this.#stdin.unconfirmedBytes >= HIGH_WATER_BYTES / 2) return
    this.#full = false
    this.#options.handlers.drain?.()
  }

  #onError({ code, message, details }: { code: string; message: string; details?: Record<string, unknown> | undefined }): void {
    this.#error = new BoxofficeError(errorCodeFrom(code) ?? 'BACKEND_UNAVAILABLE', message, details === undefined ? {} : { details })
    this.#options.handlers.told?.(this.#error)
  }

  #onClose(code: number): void {
    this.#ws = undefined
    this.#isReady = false
    if (this.#closed) return
    if (this.#ended || code === SOCKET_CLOSE.done) return this.#end()
    if (!this.#wasReady) return
    const comesBack = code === SOCKET_CLOSE.lost || code === SOCKET_CLOSE.goingAway || this.#error?.code === 'TOKEN_EXPIRED'
    if (!comesBack) return this.#end(this.#error ?? unreachable(code))
    void mend(
      () => this.#connect(),
      () => this.#closed,
    ).catch((thrown: unknown) => this.#end(thrown instanceof BoxofficeError ? thrown : unreachable(thrown)))
  }

  #renewLater(expiresAt: number): void {
    clearTimeout(this.#renew)
    if (this.#closed || this.#ended) return
    this.#renew = renewLater(this.#options, expiresAt, ({ token, expiresAt: next }) => {
      if (this.#closed) return
      if (this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(JSON.stringify({ type: 'auth', token }))
      this.#renewLater(next)
    })
  }

  #reportLater(): void {
    this.#report ??= setInterval(() => {
      if (this.#stdin.unconfirmedBytes > 0) return this.#ping()
      clearInterval(this.#report)
      this.#report = undefined
    }, REPORT_EVERY_MS)
  }

  #ping(): void {
    this.#reported = 0
    const { stdout, stderr } = this.#received
    if (this.#ws?.readyState === WebSocket.OPEN)
      this.#ws.send(JSON.stringify({ type: 'ping', stdout_offset: stdout, stderr_offset: stderr }))
  }

  #sendInput(bytes: Uint8Array): void {
    if (this.#isReady && this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(Buffer.concat([Buffer.of(STREAM_STDIN), bytes]))
  }

  #control(frame: object): void {
    if (this.#closed || this.#ended) return
    if (this.#isReady && this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(JSON.stringify(frame))
    else if (this.#waiting.length < MAX_WAITING) this.#waiting.push(frame)
  }

  #end(error?: BoxofficeError): void {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#report)
    clearTimeout(this.#renew)
    this.#options.handlers.closed(error)
  }
}
