import type { Duplex } from 'node:stream'
import { LIMITS } from '@boxoffice/protocol'
import { WebSocket } from 'ws'

/** Payload of one binary message: with its stream byte below 64 KiB, which also is what a 16-bit length can say [C-36]. */
const MAX_PAYLOAD_BYTES = LIMITS.chunkBytes - 2

/** A binary message in the making. */
type Message = { stream: 1 | 2; pieces: Buffer[]; bytes: number; flushed: (bytes: number) => void }

/**
 * Sends to one client. Output goes as a head and the pieces themselves onto the socket, without a copy: the compression that could
 * need a message as a whole is off, so this is exactly what `ws` would write. What one read of the supervisor brings is gathered
 * into one message, because a message costs the client more than a byte.
 */
export class SocketWriter {
  readonly #ws: WebSocket
  readonly #socket: Duplex
  #message: Message | undefined

  constructor(ws: WebSocket, socket: Duplex) {
    this.#ws = ws
    this.#socket = socket
  }

  /** Bytes that the kernel has not taken yet. */
  get backlog(): number {
    return this.#socket.writableLength + (this.#message?.bytes ?? 0)
  }

  json(frame: object, flushed?: () => void): void {
    this.flush()
    if (this.#ws.readyState !== WebSocket.OPEN) return
    this.#ws.send(JSON.stringify(frame), flushed === undefined ? undefined : () => flushed())
  }

  /** `flushed` hears of every byte once it has been handed to the network. */
  binary(stream: 1 | 2, piece: Buffer, flushed: (bytes: number) => void): void {
    let rest = piece
    while (rest.length > 0) {
      const open = this.#open(stream, flushed)
      const part = rest.subarray(0, MAX_PAYLOAD_BYTES - open.bytes)
      open.pieces.push(part)
      open.bytes += part.length
      rest = rest.subarray(part.length)
    }
  }

  /** Sends what has been gathered; before anything that must come after it. */
  flush(): void {
    const message = this.#message
    if (message === undefined) return
    this.#message = undefined
    if (this.#ws.readyState !== WebSocket.OPEN) return
    const { stream, pieces, bytes, flushed } = message
    this.#socket.cork()
    this.#socket.write(messageHead(stream, bytes))
    const last = pieces.pop() as Buffer
    for (const piece of pieces) this.#socket.write(piece)
    this.#socket.write(last, () => flushed(bytes))
    this.#socket.uncork()
  }

  #open(stream: 1 | 2, flushed: (bytes: number) => void): Message {
    const current = this.#message
    if (current !== undefined && current.stream === stream && current.bytes < MAX_PAYLOAD_BYTES) return current
    if (current === undefined) process.nextTick(() => this.flush())
    else this.flush()
    this.#message = { stream, pieces: [], bytes: 0, flushed }
    return this.#message
  }
}

/** The head of an unmasked, final binary frame (RFC 6455, 5.2), and the stream byte that our payload starts with. */
const messageHead = (stream: 1 | 2, payload: number): Buffer => {
  const length = payload + 1
  if (length < 126) return Buffer.of(0x82, length, stream)
  const head = Buffer.allocUnsafe(5)
  head[0] = 0x82
  head[1] = 126
  head.writeUInt16BE(length, 2)
  head[4] = stream
  return head
}
