import { BoxofficeError, LIMITS, TIMES } from '@boxoffice/protocol'
import type { ProcessStream } from '../exec/process-stream.ts'
import type { SocketWriter } from './writer.ts'

export type FlowOptions = {
  stream: ProcessStream
  writer: SocketWriter
  /** The client reports what it has; otherwise what was handed to the network counts. */
  ack: boolean
  stalled: (error: BoxofficeError) => void
}

/** Small rests are acknowledged after this, so that a quiet process is told of everything that was delivered. */
const FLUSH_AFTER_MS = 50

/** Holds a process to the speed of one client: offsets, acknowledgements, pausing, and the limit of a client that stands still [4-134]. */
export class Flow {
  readonly #options: FlowOptions
  /** By stream: the next byte to be sent, what the network has taken, what the client says that it has. */
  readonly #next = [0, 0, 0]
  readonly #handedOver = [0, 0, 0]
  readonly #acknowledged = [0, 0, 0]
  #progressAt = performance.now()
  #paused = false
  /** The client is not read, so it cannot report; what was handed to the network counts meanwhile. */
  #deaf = false
  #stall: NodeJS.Timeout | undefined
  #flush: NodeJS.Timeout | undefined
  /** Given to the writer with every piece; one function per stream, because there are thousands of pieces a second. */
  readonly flushed = [
    (): void => {},
    (bytes: number): void => this.#onFlushed(1, bytes),
    (bytes: number): void => this.#onFlushed(2, bytes),
  ] as const

  constructor(options: FlowOptions) {
    this.#options = options
  }

  begin(stdout: number, stderr: number): void {
    for (const offsets of [this.#next, this.#handedOver, this.#acknowledged]) {
      offsets[1] = stdout
      offsets[2] = stderr
    }
  }

  offset(stream: 1 | 2): number {
    return this.#next[stream] as number
  }

  /** Counts what is sent and says where it starts. */
  sent(stream: 1 | 2, bytes: number): number {
    const offset = this.#next[stream] as number
    this.#next[stream] = offset + bytes
    return offset
  }

  /** After each piece. */
  check(): void {
    if (this.#paused || this.#options.writer.backlog <= LIMITS.highWaterBytes) return
    this.#paused = true
    this.#options.stream.pause()
    this.watchStall()
  }

  #onFlushed(stream: 1 | 2, bytes: number): void {
    this.#handedOver[stream] = (this.#handedOver[stream] as number) + bytes
    if (!this.#options.ack || this.#deaf) this.#acknowledge(stream, this.#handedOver[stream] as number)
    this.#stall?.refresh()
    if (!this.#paused || this.#options.writer.backlog >= LIMITS.lowWaterBytes) return
    this.#paused = false
    clearTimeout(this.#stall)
    this.#stall = undefined
    this.#options.stream.resume()
  }

  /** From now on the network has to take something within the limit. */
  watchStall(): void {
    this.#stall ??= setTimeout(() => this.#options.stalled(standsStill()), TIMES.stalledReader * 1000)
  }

  /** For a client in acknowledged mode that reads its socket but never says so; asked now and then. */
  checkProgress(): void {
    if (!this.#options.ack || this.#deaf) return
    const waits = ([1, 2] as const).some(
      (stream) => (this.#handedOver[stream] as number) - (this.#acknowledged[stream] as number) >= LIMITS.highWaterBytes,
    )
    if (waits && performance.now() - this.#progressAt > TIMES.stalledReader * 1000) this.#options.stalled(standsStill())
  }

  /** What the client says that it has. More than was sent is not believed. */
  report(stream: 1 | 2, offset: number | undefined): void {
    if (!this.#options.ack || offset === undefined) return
    if (offset > (this.#next[stream] as number) || offset <= (this.#acknowledged[stream] as number)) return
    this.#acknowledged[stream] = offset
    this.#progressAt = performance.now()
    this.#acknowledge(stream, offset)
  }

  /** The client is not read any more, or again. */
  hear(hears: boolean): void {
    this.#deaf = !hears
    this.#progressAt = performance.now()
    if (hears || !this.#options.ack) return
    for (const stream of [1, 2] as const) this.#acknowledge(stream, this.#handedOver[stream] as number)
  }

  #acknowledge(stream: 1 | 2, offset: number): void {
    this.#options.stream.acknowledge(stream, offset)
    this.#flush ??= setTimeout(() => {
      this.#flush = undefined
      this.#options.stream.flush()
    }, FLUSH_AFTER_MS)
  }

  dispose(): void {
    clearTimeout(this.#stall)
    clearTimeout(this.#flush)
    this.#options.stream.flush()
  }
}

const standsStill = (): BoxofficeError =>
  new BoxofficeError('TIMEOUT', `The client has read nothing for ${TIMES.stalledReader} s; attach again at the last offset`)
