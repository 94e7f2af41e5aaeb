import { randomUUID } from 'node:crypto'
import {
  type BoxofficeError,
  type ExitFrame,
  type ReadyFrame,
  ServerFrame,
  type SIGNALS,
  STREAM_STDERR,
  STREAM_STDIN,
  STREAM_STDOUT,
  SUBPROTOCOL_BINARY,
} from '@boxoffice/protocol'
import type { WebSocket } from 'ws'
import { type DialOptions, frameError, readFrame } from './agent-socket.ts'
import { MendedSocket, type MendedSocketOptions, type MendedTraffic } from './mended-socket.ts'
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

export type ProcessSocketOptions = MendedSocketOptions & { start: ProcessStart; handlers: ProcessSocketHandlers }

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

class MendingProcessSocket implements ProcessSocket, MendedTraffic {
  readonly id: string
  readonly #start: ProcessStart
  readonly #handlers: ProcessSocketHandlers
  readonly #socket: MendedSocket
  readonly #idField: 'exec_id' | 'shell_id'
  readonly #stdin = new StdinBuffer()
  readonly #received = { stdout: 0, stderr: 0 }
  #reported = 0
  #wasReady = false
  #full = false
  /** Control frames that wait for a connection; above `MAX_WAITING` they are dropped. */
  #waiting: object[] = []
  #report: NodeJS.Timeout | undefined

  constructor({ start, handlers, ...options }: ProcessSocketOptions) {
    this.#start = start
    this.#handlers = handlers
    const { kind, frame } = start
    this.#idField = kind === 'exec' ? 'exec_id' : 'shell_id'
    this.id = String(frame.attach ?? frame[this.#idField] ?? randomUUID())
    this.#socket = new MendedSocket(options, this)
  }

  open(): Promise<void> {
    return this.#socket.open()
  }

  write(bytes: Uint8Array): boolean {
    if (this.#socket.isClosed || bytes.length === 0) return true
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
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  leave(): void {
    this.#socket.leave()
  }

  // What the socket asks for.

  dial(): Pick<DialOptions, 'path' | 'protocol' | 'maxPayload'> {
    return { path: `/${this.#start.kind}/ws`, protocol: SUBPROTOCOL_BINARY, maxPayload: MAX_MESSAGE_BYTES }
  }

  message(ws: WebSocket, data: Buffer, isBinary: boolean): void {
    if (isBinary) return this.#onOutput(data)
    const frame = readFrame(ws, ServerFrame, data)
    if (frame?.type === 'auth_ok') {
      if (this.#socket.begin(ws)) ws.send(JSON.stringify(this.#startFrame()))
    } else if (frame?.type === 'ready') this.#onReady(frame)
    else if (frame?.type === 'pong') this.#onConfirmed(frame.stdin_offset)
    else if (frame?.type === 'exit') {
      this.#socket.done()
      this.#handlers.exit(frame)
    } else if (frame?.type === 'error') this.#onError(frameError(frame.error))
  }

  renewed(token: string): void {
    this.#socket.readyWs?.send(JSON.stringify({ type: 'auth', token }))
  }

  givenUp(error: BoxofficeError): BoxofficeError {
    return error
  }

  closed(error?: BoxofficeError): void {
    clearInterval(this.#report)
    this.#handlers.closed(error)
  }

  /** After the first `ready` only ever an attach: were the record gone, starting again would run the command twice. */
  #startFrame(): object {
    const { frame } = this.#start
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

  #onReady(frame: ReadyFrame): void {
    this.#received.stdout = frame.stdout.offset
    this.#received.stderr = frame.stderr.offset
    const stdin = frame.stdin?.offset ?? 0
    this.#socket.ready()
    // Others may have written to a process that was there before.
    if (!this.#wasReady) this.#stdin.begin(stdin)
    for (const bytes of this.#stdin.missingFrom(stdin)) this.#sendInput(bytes)
    if (this.#stdin.isEnded) this.#sendInput(new Uint8Array())
    this.#wasReady = true
    for (const waiting of this.#waiting.splice(0)) this.#control(waiting)
    this.#handlers.ready(frame)
    this.#onConfirmed(stdin)
  }

  #onOutput(data: Buffer): void {
    const stream = data[0] === STREAM_STDOUT ? 'stdout' : data[0] === STREAM_STDERR ? 'stderr' : undefined
    if (stream === undefined) return
    const offset = this.#received[stream]
    this.#received[stream] += data.length - 1
    this.#reported += data.length - 1
    if (this.#reported >= REPORT_BYTES) this.#ping()
    this.#handlers.output(stream, data.subarray(1), offset)
  }

  #onConfirmed(offset: number | undefined): void {
    if (offset !== undefined) this.#stdin.confirm(offset)
    if (!this.#full || this.#stdin.unconfirmedBytes >= HIGH_WATER_BYTES / 2) return
    this.#full = false
    this.#handlers.drain?.()
  }

  #onError(error: BoxofficeError): void {
    this.#socket.told(error)
    this.#handlers.told?.(error)
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
    this.#socket.readyWs?.send(JSON.stringify({ type: 'ping', stdout_offset: stdout, stderr_offset: stderr }))
  }

  #sendInput(bytes: Uint8Array): void {
    this.#socket.readyWs?.send(Buffer.concat([Buffer.of(STREAM_STDIN), bytes]))
  }

  #control(frame: object): void {
    if (this.#socket.isClosed || this.#socket.isDone) return
    const ws = this.#socket.readyWs
    if (ws !== undefined) ws.send(JSON.stringify(frame))
    else if (this.#waiting.length < MAX_WAITING) this.#waiting.push(frame)
  }
}
