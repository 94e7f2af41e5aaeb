import type { Duplex } from 'node:stream'
import { LIMITS } from '@boxoffice/protocol'
import { WebSocket } from 'ws'

/** Payload of one binary message: with its stream byte below 64 KiB, which also is what a 16-bit length can say [C-36]. */
const MAX_PAYLOAD_BYTES = LIMITS.chunkBytes - 2

/**
 * Sends to one client. Output goes as a head and the piece itself onto the socket, without a copy: the compression that could
 * need a message as a whole is off, so this is exactly what `ws` would write.
 */
export class SocketWriter {
  readonly #ws: WebSocket
  readonly #socket: Duplex

  constructor(ws: WebSocket, socket: Duplex) {
    this.#ws = ws
    this.#socket = socket
  }

  /** Bytes that the kernel has not taken yet. */
  get backlog(): number {
    return this.#socket.writableLength
  }

  json(frame: object, flushed?: () => void): void {
    if (this.#ws.readyState !== WebSocket.OPEN) return
    this.#ws.send(JSON.stringify(frame), flushed === undefined ? undefined : () => flushed())
  }

  /** A binary message per 64 KiB; `flushed` when the last of it has been handed to the network. */
  binary(stream: 1 | 2, piece: Buffer, flushed: () => void): void {
    if (this.#ws.readyState !== WebSocket.OPEN) return
    this.#socket.cork()
    for (let at = 0; at < piece.length; at += MAX_PAYLOAD_BYTES) {
      const part = piece.length <= MAX_PAYLOAD_BYTES ? piece : piece.subarray(at, at + MAX_PAYLOAD_BYTES)
      this.#socket.write(messageHead(stream, part.length))
      if (at + part.length < piece.length) this.#socket.write(part)
      else this.#socket.write(part, flushed)
    }
    this.#socket.uncork()
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
