import { isUtf8 } from 'node:buffer'

/** The private wire of WIRE.md, agent's side. `packages/supervisor/vectors/wire.json` holds what both sides agree on. */
export const WIRE_VERSION = 1

export const FRAME = {
  stdin: 0x00,
  stdout: 0x01,
  stderr: 0x02,
  hello: 0x10,
  welcome: 0x11,
  start: 0x12,
  attach: 0x13,
  file: 0x14,
  ack: 0x15,
  call: 0x16,
  spare: 0x17,
  dial: 0x18,
  take: 0x19,
  ready: 0x20,
  exit: 0x21,
  result: 0x22,
  error: 0x23,
  end: 0x24,
  reply: 0x25,
  event: 0x26,
} as const

/** What a frame's length may be: the type byte and its payload. */
export const MAX_FRAME_BYTES = 4 * 1024 * 1024
export const MAX_DATA_BYTES = 1024 * 1024
const HEADER_BYTES = 5
const ACK_BYTES = 20

const KNOWN: ReadonlySet<number> = new Set(Object.values(FRAME))

/** The other side broke the wire's rules; its connection ends, nothing else does. */
export class WireViolation extends Error {
  override readonly name = 'WireViolation'
}

export type Acknowledgement = { channel: number; stdout: number; stderr: number }

/** Where decoded frames go, in the order of the wire. */
export interface FrameSink {
  /** Part of a data frame: what has arrived of it, a view on what was read, for as long as this call takes. An empty frame gives one empty piece. */
  data(type: 0 | 1 | 2, piece: Buffer): void
  frame(type: number, payload: Record<string, unknown>): void
}

export const encodeFrame = (type: number, payload: object): Buffer => {
  const json = JSON.stringify(payload)
  const length = Buffer.byteLength(json)
  if (length + 1 > MAX_FRAME_BYTES) throw new WireViolation('frame is too long')
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length)
  frame.writeUInt32LE(length + 1, 0)
  frame[4] = type
  frame.write(json, HEADER_BYTES)
  return frame
}

/** The head of a data frame; the payload is written after it as it is. */
export const encodeDataHeader = (type: 0 | 1 | 2, length: number): Buffer => {
  const header = Buffer.allocUnsafe(HEADER_BYTES)
  header.writeUInt32LE(length + 1, 0)
  header[4] = type
  return header
}

export const encodeAck = ({ channel, stdout, stderr }: Acknowledgement): Buffer => {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + ACK_BYTES)
  frame.writeUInt32LE(ACK_BYTES + 1, 0)
  frame[4] = FRAME.ack
  frame.writeUInt32LE(channel, 5)
  frame.writeBigUInt64LE(BigInt(stdout), 9)
  frame.writeBigUInt64LE(BigInt(stderr), 17)
  return frame
}

const decodeAck = (payload: Buffer): Acknowledgement => {
  if (payload.length !== ACK_BYTES) throw new WireViolation('ack has the wrong size')
  return { channel: payload.readUInt32LE(0), stdout: offsetAt(payload, 4), stderr: offsetAt(payload, 12) }
}

const offsetAt = (payload: Buffer, at: number): number => {
  const offset = payload.readBigUInt64LE(at)
  if (offset > BigInt(Number.MAX_SAFE_INTEGER)) throw new WireViolation('an offset is too large')
  return Number(offset)
}

const decodeJson = (payload: Buffer): Record<string, unknown> => {
  if (!isUtf8(payload)) throw new WireViolation('payload is not UTF-8')
  let value: unknown
  try {
    value = JSON.parse(payload.toString())
  } catch (cause) {
    throw new WireViolation('payload is not JSON', { cause })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new WireViolation('payload is not an object')
  return value as Record<string, unknown>
}

const decodePayload = (type: number, payload: Buffer): Record<string, unknown> => {
  if (type === FRAME.ack) return decodeAck(payload)
  if (type === FRAME.end) return {}
  return decodeJson(payload)
}

/**
 * Cuts a byte stream into frames. Data is handed on piece by piece without a copy; JSON is gathered, at most `MAX_FRAME_BYTES`.
 * Of a chunk that has been pushed it keeps nothing but copies.
 * After a `WireViolation` the decoder must not be used any more.
 */
export class FrameDecoder {
  readonly #sink: FrameSink
  /** An incomplete header or JSON payload from earlier reads. */
  #held: Buffer[] = []
  #heldBytes = 0
  #type = -1
  /** Payload bytes of the current frame that have not been read. */
  #missing = 0

  constructor(sink: FrameSink) {
    this.#sink = sink
  }

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#type === -1) at = this.#readHeader(chunk, at)
      else if (this.#type <= FRAME.stderr) at = this.#readData(chunk, at)
      else at = this.#readPayload(chunk, at)
    }
    const last = this.#held.pop()
    if (last !== undefined) this.#held.push(Buffer.from(last))
  }

  #readHeader(chunk: Buffer, at: number): number {
    if (this.#heldBytes === 0 && chunk.length - at >= HEADER_BYTES) {
      this.#begin(chunk.readUInt32LE(at), chunk[at + 4] as number)
      return at + HEADER_BYTES
    }
    const end = Math.min(chunk.length, at + HEADER_BYTES - this.#heldBytes)
    this.#hold(chunk.subarray(at, end))
    if (this.#heldBytes >= 4) checkLength(Buffer.concat(this.#held).readUInt32LE(0))
    if (this.#heldBytes === HEADER_BYTES) {
      const header = this.#release()
      this.#begin(header.readUInt32LE(0), header[4] as number)
    }
    return end
  }

  #begin(length: number, type: number): void {
    checkLength(length)
    if (!KNOWN.has(type)) throw new WireViolation('frame of unknown type')
    if (type <= FRAME.stderr && length - 1 > MAX_DATA_BYTES) throw new WireViolation('data frame is too long')
    this.#type = type
    this.#missing = length - 1
    if (this.#missing > 0) return
    this.#type = -1
    if (type <= FRAME.stderr) this.#sink.data(type as 0 | 1 | 2, Buffer.alloc(0))
    else this.#sink.frame(type, decodePayload(type, Buffer.alloc(0)))
  }

  #readData(chunk: Buffer, at: number): number {
    const type = this.#type as 0 | 1 | 2
    const end = Math.min(chunk.length, at + this.#missing)
    this.#missing -= end - at
    if (this.#missing === 0) this.#type = -1
    this.#sink.data(type, chunk.subarray(at, end))
    return end
  }

  #readPayload(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#missing)
    this.#missing -= end - at
    this.#hold(chunk.subarray(at, end))
    if (this.#missing > 0) return end
    const type = this.#type
    this.#type = -1
    this.#sink.frame(type, decodePayload(type, this.#release()))
    return end
  }

  #hold(piece: Buffer): void {
    this.#held.push(piece)
    this.#heldBytes += piece.length
  }

  #release(): Buffer {
    const whole = this.#held.length === 1 ? (this.#held[0] as Buffer) : Buffer.concat(this.#held)
    this.#held = []
    this.#heldBytes = 0
    return whole
  }
}

const checkLength = (length: number): void => {
  if (length < 1 || length > MAX_FRAME_BYTES) throw new WireViolation('frame length is out of range')
}
