import { randomBytes } from 'node:crypto'
import type { ReadBuffer } from '../http1/read-buffers.ts'

/** Opcodes of RFC 6455, 5.2; from `close` on they are of control frames. */
export const OPCODE = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

/** A message of an agent is at most a line of a managed process (16 MiB) in its wrapping. */
const MAX_FRAME_BYTES = 32 * 1024 * 1024
const MAX_CONTROL_BYTES = 125
const NOTHING: Buffer = Buffer.alloc(0)

/** Bytes that are held until `release` is called, once they are written out; without it they are nobody else's. */
export type Piece = { bytes: Buffer; release: (() => void) | undefined }

/** Below this a copy costs less than a buffer that is held. */
const COPY_BYTES = 4096

export type FrameHandlers = {
  /** Whole data frames as they came, one or many. */
  data(pieces: readonly Piece[]): void
  control(opcode: number, payload: Buffer): void
}

/**
 * Cuts what a server sends into frames, without looking into them: data frames come out as the buffers in which they came. One that
 * has not ended is held, so that whenever something has come out, another frame may be put behind it.
 */
export class FrameCutter {
  readonly #handlers: FrameHandlers
  /** The beginning of a data frame, and how much of it is still to come. */
  #held: Piece[] = []
  #missing = 0
  /** The beginning of a head or of a control frame. */
  #partial: Buffer = NOTHING

  constructor(handlers: FrameHandlers) {
    this.#handlers = handlers
  }

  /** Throws for what no server may send. `chunk` is the caller's again afterwards, but for what is held of `buffer`. */
  push(chunk: Buffer, buffer?: ReadBuffer): void {
    const owner = this.#partial.length === 0 ? buffer : undefined
    const bytes = this.#partial.length === 0 ? chunk : Buffer.concat([this.#partial, chunk])
    this.#partial = NOTHING
    /** Out are the bytes before `from`; whole frames end at `whole`. */
    let from = 0
    let whole = 0
    let at = 0
    for (;;) {
      if (this.#missing > 0) {
        const taken = Math.min(this.#missing, bytes.length - at)
        at += taken
        this.#missing -= taken
        if (this.#missing > 0) break
        whole = at
      }
      const head = readHead(bytes, at)
      if (head === undefined) break
      if (head.opcode < OPCODE.close) {
        at += head.size
        this.#missing = head.payload
        if (head.payload === 0) whole = at
        continue
      }
      const end = at + head.size + head.payload
      if (end > bytes.length) break
      this.#emit(bytes.subarray(from, whole), owner)
      this.#handlers.control(head.opcode, bytes.subarray(at + head.size, end))
      at = from = whole = end
    }
    this.#emit(bytes.subarray(from, whole), owner)
    if (this.#missing > 0) this.#held.push(kept(bytes.subarray(whole), owner))
    else this.#partial = Buffer.from(bytes.subarray(at))
  }

  #emit(bytes: Buffer, owner: ReadBuffer | undefined): void {
    if (bytes.length === 0) return
    const pieces = this.#held
    this.#held = []
    pieces.push(kept(bytes, owner))
    this.#handlers.data(pieces)
  }
}

function kept(bytes: Buffer, owner: ReadBuffer | undefined): Piece {
  if (owner === undefined) return { bytes, release: undefined }
  if (bytes.length < COPY_BYTES) return { bytes: Buffer.from(bytes), release: undefined }
  owner.hold()
  return { bytes, release: owner.release }
}

/** The head of a server's frame; undefined while it has not come whole. */
function readHead(bytes: Buffer, at: number): { opcode: number; size: number; payload: number } | undefined {
  if (bytes.length < at + 2) return undefined
  const first = bytes[at] as number
  const second = bytes[at + 1] as number
  const opcode = first & 0x0f
  if ((first & 0x70) !== 0 || (second & 0x80) !== 0 || opcode > OPCODE.pong) throw new Error('no frame of a server without extensions')
  if (opcode >= OPCODE.close && ((first & 0x80) === 0 || second > MAX_CONTROL_BYTES)) throw new Error('a control frame is whole and short')
  if (second < 126) return { opcode, size: 2, payload: second }
  const size = second === 126 ? 4 : 10
  if (bytes.length < at + size) return undefined
  const payload = second === 126 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
  if (payload > MAX_FRAME_BYTES) throw new Error(`a frame of ${payload} bytes`)
  return { opcode, size, payload }
}

/** One whole frame as a client sends it: masked, with a key that cannot be foreseen. */
export function clientFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload
  const extended = length < 126 ? 0 : length < 65_536 ? 2 : 8
  const start = 2 + extended + 4
  const frame = Buffer.allocUnsafe(start + length)
  frame[0] = 0x80 | opcode
  frame[1] = 0x80 | (extended === 0 ? length : extended === 2 ? 126 : 127)
  if (extended === 2) frame.writeUInt16BE(length, 2)
  else if (extended === 8) frame.writeBigUInt64BE(BigInt(length), 2)
  const mask = randomBytes(4)
  mask.copy(frame, start - 4)
  for (let i = 0; i < length; i++) frame[start + i] = (payload[i] as number) ^ (mask[i & 3] as number)
  return frame
}

/** The payload of a close frame; empty without a code. */
export function closePayload(code: number | undefined, reason: string): Buffer {
  if (code === undefined) return NOTHING
  const payload = Buffer.alloc(2 + Buffer.byteLength(reason))
  payload.writeUInt16BE(code)
  payload.write(reason, 2)
  return payload
}
