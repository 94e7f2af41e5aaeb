import type { Duplex } from 'node:stream'
import { LIMITS, type ServerFrame } from '@boxoffice/protocol'
import { WebSocket } from 'ws'
import { giveBuffer, takeBuffer } from '../fast-io/buffer-pool.ts'
import { type Dialect, OWN_DIALECT } from './dialect.ts'

const HEAD_BYTES = 5

/**
 * Payload of one binary message [C-36]. With its head it is what Node reads at once: a reader that is in step finds a whole message
 * in each read, and `ws` hands that on as it is. Three bytes more, and every message is put together from two reads.
 */
const MAX_PAYLOAD_BYTES = LIMITS.chunkBytes - HEAD_BYTES

/** From here on a piece begins a stream of bulk, which is worth waiting a moment for the rest of a message. */
const BULK_BYTES = 16 * 1024

/** A binary message in the making; `buffer` holds the bytes of bulk behind room for a head. */
type Message = { stream: 1 | 2; bytes: number; flushed: (bytes: number) => void } & ({ pieces: Buffer[] } | { buffer: Buffer })

/**
 * Sends to one client. Output goes as a head and its bytes onto the socket: the compression that could need a message as a whole
 * is off, so this is exactly what `ws` would write. A message costs client and network more than a byte, so the pieces of one
 * read of the supervisor go in one message; and bulk, which comes in pieces of 36 KiB (what the kernel's buffers hold), goes in
 * full messages. All is copied: the next read overwrites a piece.
 */
export class SocketWriter {
  readonly #ws: WebSocket
  readonly #socket: Duplex
  readonly #dialect: Pick<Dialect, 'write'>
  #message: Message | undefined

  constructor(ws: WebSocket, socket: Duplex, dialect: Pick<Dialect, 'write'> = OWN_DIALECT) {
    this.#ws = ws
    this.#socket = socket
    this.#dialect = dialect
  }

  /** Bytes that the kernel has not taken yet. */
  get backlog(): number {
    return this.#socket.writableLength + (this.#message?.bytes ?? 0)
  }

  json(frame: object, flushed?: () => void): void {
    this.flush()
    if (this.#ws.readyState !== WebSocket.OPEN) return
    const written = this.#dialect.write(frame as ServerFrame)
    if (written === undefined) return flushed?.()
    this.#ws.send(JSON.stringify(written), flushed === undefined ? undefined : () => flushed())
  }

  /** `flushed` hears of every byte once it has been handed to the network. */
  binary(stream: 1 | 2, piece: Buffer, flushed: (bytes: number) => void): void {
    let rest = piece
    while (rest.length > 0) {
      const open = this.#open(stream, piece.length, flushed)
      const part = rest.subarray(0, MAX_PAYLOAD_BYTES - open.bytes)
      if ('buffer' in open) part.copy(open.buffer, HEAD_BYTES + open.bytes)
      else open.pieces.push(Buffer.from(part))
      open.bytes += part.length
      rest = rest.subarray(part.length)
      if (open.bytes === MAX_PAYLOAD_BYTES) this.flush()
    }
  }

  /** Sends what has been gathered; before anything that must come after it. */
  flush(): void {
    const message = this.#message
    if (message === undefined) return
    this.#message = undefined
    const open = this.#ws.readyState === WebSocket.OPEN
    const { stream, bytes, flushed } = message
    if ('buffer' in message) {
      const { buffer } = message
      if (!open) return giveBuffer(buffer)
      const head = messageHead(stream, bytes)
      const start = HEAD_BYTES - head.length
      head.copy(buffer, start)
      this.#socket.write(buffer.subarray(start, HEAD_BYTES + bytes), () => {
        giveBuffer(buffer)
        flushed(bytes)
      })
      return
    }
    if (!open) return
    const { pieces } = message
    this.#socket.cork()
    this.#socket.write(messageHead(stream, bytes))
    const last = pieces.pop() as Buffer
    for (const piece of pieces) this.#socket.write(piece)
    this.#socket.write(last, () => flushed(bytes))
    this.#socket.uncork()
  }

  #open(stream: 1 | 2, length: number, flushed: (bytes: number) => void): Message {
    const current = this.#message?.stream === stream ? this.#message : undefined
    if (current !== undefined && ('buffer' in current || length < BULK_BYTES)) return current
    if (current === undefined) this.flush()
    return length < BULK_BYTES ? this.#openSmall(stream, flushed) : this.#openBulk(stream, flushed, current)
  }

  #openSmall(stream: 1 | 2, flushed: (bytes: number) => void): Message {
    const message = { stream, pieces: [], bytes: 0, flushed }
    process.nextTick(() => {
      if (this.#message === message) this.flush()
    })
    this.#message = message
    return message
  }

  /** `begun` is what the same read has brought before; it goes in front. */
  #openBulk(stream: 1 | 2, flushed: (bytes: number) => void, begun: Message | undefined): Message {
    const message = { stream, buffer: takeBuffer(), bytes: 0, flushed }
    if (begun !== undefined && 'pieces' in begun) {
      for (const piece of begun.pieces) message.bytes += piece.copy(message.buffer, HEAD_BYTES + message.bytes)
    }
    let seen = -1
    const look = (): void => {
      if (this.#message !== message) return
      if (seen === message.bytes) return this.flush()
      seen = message.bytes
      // After the next read, if there is anything to read.
      setImmediate(look)
    }
    setImmediate(look)
    this.#message = message
    return message
  }
}

/** The head of an unmasked, final binary frame (RFC 6455, 5.2), and the stream byte that our payload starts with. */
const messageHead = (stream: 1 | 2, payload: number): Buffer => {
  const length = payload + 1
  if (length < 126) return Buffer.of(0x82, length, stream)
  const head = Buffer.allocUnsafe(HEAD_BYTES)
  head[0] = 0x82
  head[1] = 126
  head.writeUInt16BE(length, 2)
  head[4] = stream
  return head
}
