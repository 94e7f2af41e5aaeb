import type { Socket } from 'node:net'
import { Splice, type SpliceOutcome } from '@boxoffice/node-http'
import type { ConnectionRole } from './connection.ts'
import type { Channel, ChannelHandler } from './link.ts'
import { encodeDataHeader, encodeFrame, FRAME, MAX_DATA_BYTES, WireViolation } from './wire.ts'

/** Stdin that nobody will read is not worth keeping a connection for: above this the channel is closed instead of reused. */
const REUSABLE_BACKLOG_BYTES = 64 * 1024

/** What a channel takes of an upload or of stdin before it says wait: enough that sender, agent and supervisor work at the same time. */
const BUFFER_BYTES = 512 * 1024

/** Frames that end an operation, by the frame that began it. A `file` that reads or lists ends with `end`, others with `result`. */
const endsOperation = (type: number, streaming: boolean): boolean =>
  type === FRAME.exit || type === FRAME.error || type === FRAME.end || (type === FRAME.result && !streaming)

const FROM_SUPERVISOR: ReadonlySet<number> = new Set([FRAME.ready, FRAME.exit, FRAME.result, FRAME.error, FRAME.end])

/** A channel connection: idle, or lent to one operation. */
export class ChannelConnection implements ConnectionRole {
  readonly number: number
  readonly #socket: Socket
  readonly #supervisorPath: string
  readonly #idle: (connection: ChannelConnection) => void
  readonly #gone: (connection: ChannelConnection) => void
  readonly #paused: () => void
  #lease: Lease | undefined

  constructor(
    socket: Socket,
    options: {
      number: number
      supervisorPath: string
      idle: (c: ChannelConnection) => void
      gone: (c: ChannelConnection) => void
      paused: () => void
    },
  ) {
    this.#socket = socket
    this.number = options.number
    this.#supervisorPath = options.supervisorPath
    this.#idle = options.idle
    this.#gone = options.gone
    this.#paused = options.paused
  }

  get alive(): boolean {
    return !this.#socket.destroyed && this.#socket.writable
  }

  get lease(): Lease | undefined {
    return this.#lease
  }

  /** Its reader does not read: the end of its operation may be on the way, and the supervisor takes the channel for idle. */
  get paused(): boolean {
    return this.#lease !== undefined && this.#socket.isPaused()
  }

  lend(handler: ChannelHandler): Channel {
    const options = { number: this.number, supervisorPath: this.#supervisorPath, paused: this.#paused }
    this.#lease = new Lease(this.#socket, { ...options, handler })
    return this.#lease
  }

  data(type: 0 | 1 | 2, piece: Buffer): void {
    const lease = this.#lease
    if (type === 0 || lease === undefined) throw new WireViolation('data out of place')
    if (piece.length > 0) lease.handler.data(type, piece)
    else lease.handler.dataEnded?.()
  }

  frame(type: number, payload: Record<string, unknown>): void {
    const lease = this.#lease
    if (lease === undefined || !FROM_SUPERVISOR.has(type)) throw new WireViolation('frame out of place')
    if (endsOperation(type, lease.streaming)) this.#end(lease, type)
    lease.handler.frame(type, payload)
  }

  closed(): void {
    const lease = this.#lease
    this.#lease = undefined
    this.#gone(this)
    if (lease === undefined || lease.ended) return
    lease.finish()
    lease.handler.closed()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /** Before the handler hears of the end, so that what it starts next can use this channel. */
  #end(lease: Lease, type: number): void {
    this.#lease = undefined
    lease.finish()
    if (this.#socket.isPaused()) this.#socket.resume()
    // After a failed upload the supervisor closes the channel; one whose body has not ended is of no use either.
    const spoiled = lease.upload && (type === FRAME.error || lease.bodyOpen)
    if (spoiled || this.#socket.writableLength > REUSABLE_BACKLOG_BYTES) this.#socket.destroy()
    else this.#idle(this)
  }
}

/** One operation's use of a channel. Inert once the operation is over, so that a late caller cannot touch the next one. */
class Lease implements Channel {
  readonly number: number
  readonly handler: ChannelHandler
  readonly #socket: Socket
  readonly #supervisorPath: string
  readonly #paused: () => void
  /** The operation's answer has content after `result`. */
  streaming = false
  upload = false
  /** The end of an upload's body has not been sent. */
  bodyOpen = false
  ended = false
  /** The last acknowledgement, sent again when the control connection comes back. */
  acknowledged: { stdout: number; stderr: number } | undefined
  #wake: (() => void)[] = []
  #splice: Splice | undefined

  constructor(socket: Socket, options: { number: number; handler: ChannelHandler; supervisorPath: string; paused: () => void }) {
    this.#socket = socket
    this.number = options.number
    this.handler = options.handler
    this.#supervisorPath = options.supervisorPath
    this.#paused = options.paused
    socket.on('drain', this.#onDrain)
  }

  send(type: number, payload: object): void {
    if (this.ended) return
    if (type === FRAME.file && 'op' in payload) {
      this.streaming = payload.op === 'read' || payload.op === 'list' || payload.op === 'watch'
      this.upload = this.bodyOpen = payload.op === 'write'
    }
    this.#socket.write(encodeFrame(type, payload))
  }

  write(data: Uint8Array, aheadBytes = BUFFER_BYTES): boolean {
    if (this.ended) return true
    this.#socket.cork()
    for (let at = 0; at < data.length; at += MAX_DATA_BYTES) {
      const part = data.length <= MAX_DATA_BYTES ? data : data.subarray(at, at + MAX_DATA_BYTES)
      this.#socket.write(encodeDataHeader(FRAME.stdin, part.length))
      this.#socket.write(part)
    }
    this.#socket.uncork()
    return this.#socket.writableLength < aheadBytes
  }

  writeEnd(): void {
    if (this.ended) return
    this.bodyOpen = false
    this.#socket.write(encodeDataHeader(FRAME.stdin, 0))
  }

  get canSplice(): boolean {
    return !this.ended && this.#socket.writable && this.#socket.writableLength === 0 && Splice.available
  }

  splice(from: Socket, bytes: number, patienceMs: number): Promise<SpliceOutcome> {
    if (this.ended || this.#socket.destroyed) return Promise.resolve('sink')
    if (from.destroyed) return Promise.resolve('source')
    this.#splice = new Splice(this.#supervisorPath, { from, to: this.#socket, as: 'frames', bytes, patienceMs })
    return this.#splice.outcome
  }

  drained(signal?: AbortSignal): Promise<void> {
    if (this.ended || !this.#socket.writableNeedDrain) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(signal?.reason)
      signal?.addEventListener('abort', abort, { once: true })
      this.#wake.push(() => {
        signal?.removeEventListener('abort', abort)
        resolve()
      })
    })
  }

  pause(): void {
    if (this.ended || this.#socket.isPaused()) return
    this.#socket.pause()
    this.#paused()
  }

  resume(): void {
    if (!this.ended) this.#socket.resume()
  }

  destroy(): void {
    if (this.ended) return
    this.finish()
    this.#socket.destroy()
  }

  finish(): void {
    this.ended = true
    this.#splice?.kill()
    this.#socket.off('drain', this.#onDrain)
    this.#onDrain()
  }

  readonly #onDrain = (): void => {
    const wake = this.#wake
    this.#wake = []
    for (const resume of wake) resume()
  }
}
