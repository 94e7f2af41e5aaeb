import { deferred } from '@boxoffice/kit/deferred'
import { CLOSE, type PortClientFrame, PortServerFrame, SUBPROTOCOL, SUBPROTOCOL_BEARER_PREFIX } from '@boxoffice/protocol'
import { BoxofficeError, ConnectionError, errorFromWire } from '../base/errors.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { openSocket } from '../network/socket.ts'
import { Watchdog } from '../network/watchdog.ts'
import type { Drop } from './reconnect.ts'

const PROBE_EVERY_MS = 15_000
const SILENT_FOR_MS = 45_000
/** A token that could not be renewed in time is asked for again after. */
const RENEW_AGAIN_MS = 2_000
/** How far each side may be ahead of what the other has taken. */
export const WINDOW_BYTES = 1024 * 1024
/** What goes in one message. */
const MESSAGE_BYTES = 256 * 1024

/**
 * One WebSocket with a connection to a port. `opened` resolves when the program has taken the connection, or with how it was not made.
 * Bytes that nobody reads hold the program up, and bytes that it does not take hold the writer up: neither side keeps more than the window.
 */
export class PortSocket {
  readonly opened: Promise<{ host: string } | Drop>
  /** Ends where the program has sent everything; errors where the connection breaks. */
  readonly readable: ReadableStream<Uint8Array>
  /** Closing it tells the program that no more bytes come. */
  readonly writable: WritableStream<Uint8Array>
  /** Resolves when both ways have ended or `close` was called, rejects where the connection broke. */
  readonly closed: Promise<void>
  readonly #dataplane: Pick<Dataplane, 'WebSocket' | 'token' | 'requestTimeoutMs'>
  readonly #socket: ReturnType<typeof openSocket>
  readonly #opening = deferred<{ host: string } | Drop>()
  readonly #ended = deferred<void>()
  #reader: ReadableStreamDefaultController<Uint8Array> | undefined
  #writer: WritableStreamDefaultController | undefined
  #isOpen = false
  #isOver = false
  /** Bytes of the program that were read by the caller, and that it was told of. */
  #received = 0
  #read = 0
  #told = 0
  /** Bytes that were sent, and that the sandbox has taken. */
  #sent = 0
  #acknowledged = 0
  #room = deferred<void>()
  #error: BoxofficeError | undefined
  #renewal: ReturnType<typeof setTimeout> | undefined
  #outputEnded = false

  constructor(dataplane: Pick<Dataplane, 'WebSocket' | 'token' | 'requestTimeoutMs'>, url: string, token: string) {
    this.#dataplane = dataplane
    this.opened = this.#opening.promise
    this.closed = this.#ended.promise
    // Who reads or writes hears of it there.
    this.closed.catch(() => {})
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#reader = controller
        },
        pull: () => this.#pulled(),
        cancel: () => this.close(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: WINDOW_BYTES }),
    )
    this.writable = new WritableStream<Uint8Array>({
      start: (controller) => {
        this.#writer = controller
      },
      write: (bytes) => this.#write(bytes),
      close: () => this.#frame({ type: 'end' }),
      abort: () => this.close(),
    })
    this.#socket = openSocket(dataplane.WebSocket, url, [SUBPROTOCOL, SUBPROTOCOL_BEARER_PREFIX + token], {
      open: () => this.#renewLater(dataplane.token.renewInMs() + 100),
      text: (text) => this.#text(text),
      bytes: (bytes) => this.#bytes(bytes),
      closed: (code, reason) =>
        this.#onClosed({ code, reason, error: this.#error, url, unopened: !this.#isOpen && this.#error === undefined }),
    })
    this.#watchdog = new Watchdog(() => this.#socket.drop(), dataplane.requestTimeoutMs)
    this.#probe = setInterval(() => this.#frame({ type: 'ping' }), PROBE_EVERY_MS)
  }

  readonly #watchdog: Watchdog
  readonly #probe: ReturnType<typeof setInterval>

  /** Breaks the connection off, where it has not ended: the program sees a reset. */
  close(): void {
    if (this.#isOver) return
    this.#over()
    this.#socket.close(CLOSE.done)
  }

  // From the server.

  #text(text: string): void {
    this.#watchdog.heard(SILENT_FOR_MS)
    const frame = parse(text)
    if (frame?.type === 'ready') {
      this.#isOpen = true
      this.#opening.resolve({ host: frame.host })
    } else if (frame?.type === 'end') this.#endOutput()
    else if (frame?.type === 'error') this.#error = errorFromWire(frame.error)
    else if (frame?.type === 'ack') {
      this.#acknowledged = frame.received
      this.#room.resolve()
    }
  }

  #bytes(bytes: Uint8Array): void {
    this.#watchdog.heard(SILENT_FOR_MS)
    if (this.#isOver || this.#outputEnded) return
    this.#received += bytes.length
    this.#reader?.enqueue(bytes)
    this.#pulled()
  }

  /** What is no longer in the queue has been read. */
  #pulled(): void {
    const queued = WINDOW_BYTES - (this.#reader?.desiredSize ?? WINDOW_BYTES)
    this.#read = Math.max(this.#read, this.#received - Math.max(0, queued))
    if (this.#read - this.#told < WINDOW_BYTES / 4) return
    this.#told = this.#read
    this.#frame({ type: 'ack', received: this.#read })
  }

  #endOutput(): void {
    if (this.#outputEnded || this.#isOver) return
    this.#outputEnded = true
    this.#reader?.close()
  }

  #onClosed(drop: Drop): void {
    this.#opening.resolve(drop)
    if (this.#isOver) return
    const { code, reason, error, url } = drop
    if (code === CLOSE.done) this.#endOutput()
    this.#over(
      code === CLOSE.done
        ? undefined
        : (error ?? new ConnectionError(`${new URL(url).origin}: the connection was lost (closed with ${code}${reason && `: ${reason}`})`)),
    )
  }

  #over(error?: BoxofficeError): void {
    this.#isOver = true
    this.#watchdog.stop()
    clearInterval(this.#probe)
    clearTimeout(this.#renewal)
    const reason = error ?? new BoxofficeError('DETACHED', 'the connection was closed')
    if (!this.#outputEnded) this.#reader?.error(reason)
    this.#writer?.error(reason)
    this.#room.resolve()
    if (error === undefined) this.#ended.resolve()
    else this.#ended.reject(error)
  }

  // To the server.

  async #write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += MESSAGE_BYTES) {
      const part = bytes.slice(at, at + MESSAGE_BYTES)
      while (!this.#isOver && this.#sent + part.length - this.#acknowledged > WINDOW_BYTES) {
        this.#room = deferred()
        await this.#room.promise
      }
      if (this.#isOver) return
      this.#sent += part.length
      this.#socket.send(part)
    }
  }

  #frame(frame: PortClientFrame): void {
    this.#socket.send(JSON.stringify(frame))
  }

  #renewLater(waitMs: number): void {
    if (this.#isOver) return
    this.#renewal = setTimeout(() => {
      const { token } = this.#dataplane
      token.current().then(
        (fresh) => {
          this.#frame({ type: 'auth', token: fresh })
          this.#renewLater(Math.max(RENEW_AGAIN_MS, token.renewInMs()))
        },
        () => this.#renewLater(RENEW_AGAIN_MS),
      )
    }, waitMs)
  }
}

/** Undefined for a frame of a newer server. */
const parse = (text: string): PortServerFrame | undefined => {
  try {
    return PortServerFrame.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
