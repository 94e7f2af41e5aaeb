import { STREAM_STDIN } from '@boxoffice/protocol'
import { BoxofficeError } from '../base/errors.ts'

type Message = Uint8Array<ArrayBuffer>

/** Bytes of stdin that may be on their way at once. Less than the sandbox buffers, so that acknowledgements never queue behind them. */
export const STDIN_IN_FLIGHT_BYTES = 256 * 1024
const PIECE_BYTES = 64 * 1024

type Piece = { start: number; message: Message }
/** The offset of one who waits for the end of stdin: behind every byte. */
const END = Number.POSITIVE_INFINITY
/** One who waits for the bytes before `offset`. */
type Waiting = { offset: number; resolve(): void; reject(error: unknown): void }

/**
 * The input of a process, across reconnections: every byte is kept until the process has it, and goes again from exactly
 * where a new connection says that the process stands. Offsets here count this client's own bytes; `#base` is where they
 * begin in the stream of the process.
 */
export class Outbox {
  readonly #onSent: () => void
  /** What is not confirmed, in order. `message` is a whole binary frame: the stream's number, then the bytes. */
  #pieces: Piece[] = []
  #base: number | undefined
  #confirmed = 0
  #sent = 0
  #queued = 0
  #ended = false
  #endSent = false
  #closed: { error: unknown } | undefined
  #send: ((message: Message) => void) | undefined
  #writers: Waiting[] = []
  #flushing: Waiting[] = []

  constructor(onSent: () => void) {
    this.#onSent = onSent
  }

  get sent(): number {
    return this.#sent
  }

  /** Bytes that were sent and may be lost if the connection drops now. */
  get unconfirmed(): number {
    return this.#sent - this.#confirmed
  }

  /** True while the next byte, or one who flushes, has to wait for a confirmation. */
  get blocked(): boolean {
    return this.#flushing.length > 0 || (this.#sent < this.#queued && this.unconfirmed >= STDIN_IN_FLIGHT_BYTES)
  }

  /** Resolves when the bytes are on their way; rejects when the process can take no more. */
  write(data: string | Uint8Array): Promise<void> {
    if (this.#closed) return Promise.reject(this.#closed.error)
    if (this.#ended) return Promise.reject(new BoxofficeError('STDIN_CLOSED', 'stdin was ended before'))
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) this.#queue(bytes.subarray(at, at + PIECE_BYTES))
    return this.#sentUpTo(this.#queued)
  }

  /** Ends stdin after what was written before. Resolves when the end is on its way; rejects when the process ends before. */
  end(): Promise<void> {
    if (this.#closed) return Promise.reject(this.#closed.error)
    this.#ended = true
    this.#pump()
    return this.#endSent ? Promise.resolve() : waitIn(this.#writers, END)
  }

  /** Resolves when what was written is confirmed; rejects when that cannot happen any more. */
  flush(): Promise<void> {
    if (this.#confirmed >= this.#queued) return Promise.resolve()
    if (this.#closed) return Promise.reject(this.#closed.error)
    const flushed = waitIn(this.#flushing, this.#queued)
    this.#onSent()
    return flushed
  }

  /** A connection is ready. `offset` is what the process has been given; undefined where the server does not say. */
  connect(send: (message: Message) => void, offset: number | undefined): void {
    if (offset !== undefined) {
      this.#base ??= offset
      this.confirm(offset)
      this.#sent = this.#confirmed
      this.#endSent = false
    } else {
      // What went out on the last connection counts as given: repeating keystrokes would be worse.
      this.#confirmed = this.#sent
    }
    resolveUpTo(this.#confirmed, this.#flushing)
    this.#send = send
    this.#pump()
  }

  disconnect(): void {
    this.#send = undefined
  }

  /** The process has been given the bytes before `offset` of its stream. */
  confirm(offset: number): void {
    const own = offset - (this.#base ?? offset)
    this.#confirmed = Math.min(this.#sent, Math.max(this.#confirmed, own))
    let done = 0
    for (const { start, message } of this.#pieces) {
      if (start + message.length - 1 > this.#confirmed) break
      done++
    }
    this.#pieces.splice(0, done)
    resolveUpTo(this.#confirmed, this.#flushing)
    this.#pump()
  }

  /** No more can be written: the process has ended, or is out of reach. */
  close(error: unknown): void {
    this.#closed ??= { error }
    this.#send = undefined
    this.#pieces = []
    for (const waiting of [...this.#writers.splice(0), ...this.#flushing.splice(0)]) waiting.reject(this.#closed.error)
  }

  #queue(bytes: Uint8Array): void {
    const message = new Uint8Array(bytes.length + 1)
    message[0] = STREAM_STDIN
    message.set(bytes, 1)
    this.#pieces.push({ start: this.#queued, message })
    this.#queued += bytes.length
    this.#pump()
  }

  #pump(): void {
    if (this.#send === undefined) return
    const before = this.#sent
    for (const { start, message } of this.#pieces) {
      const end = start + message.length - 1
      if (end <= this.#sent) continue
      if (this.unconfirmed + (end - this.#sent) > STDIN_IN_FLIGHT_BYTES) break
      this.#send(tail(message, this.#sent - start))
      this.#sent = end
    }
    if (this.#ended && !this.#endSent && this.#sent === this.#queued) {
      this.#endSent = true
      this.#send(new Uint8Array([STREAM_STDIN]))
      resolveUpTo(END, this.#writers)
    }
    if (this.#sent > before) {
      resolveUpTo(this.#sent, this.#writers)
      this.#onSent()
    }
  }

  #sentUpTo(offset: number): Promise<void> {
    return offset <= this.#sent ? Promise.resolve() : waitIn(this.#writers, offset)
  }
}

const waitIn = (list: Waiting[], offset: number): Promise<void> => {
  const done = new Promise<void>((resolve, reject) => list.push({ offset, resolve, reject }))
  // A caller who does not wait must not bring the program down when the process ends first.
  done.catch(() => {})
  return done
}

/** `list` is in the order of its offsets. */
const resolveUpTo = (offset: number, list: Waiting[]): void => {
  while (list[0] !== undefined && list[0].offset <= offset) list.shift()?.resolve()
}

const tail = (message: Message, skip: number): Message => {
  if (skip <= 0) return message
  const rest = message.slice(skip)
  rest[0] = STREAM_STDIN
  return rest
}
