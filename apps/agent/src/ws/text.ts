import { isUtf8 } from 'node:buffer'
import { incompleteTail } from '@boxoffice/kit/utf8-edges'

export type TextChunk = { data: string; bytes: number; lossy: boolean }

const NONE = Buffer.alloc(0)

/** Turns one stream into text, never splitting a character: what is incomplete waits for the next piece [4-132]. */
export class TextStream {
  #held: Buffer = NONE

  push(piece: Buffer): TextChunk | undefined {
    const bytes = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece])
    const tail = incompleteTail(bytes)
    this.#held = tail === 0 ? NONE : Buffer.from(bytes.subarray(bytes.length - tail))
    return decode(tail === 0 ? bytes : bytes.subarray(0, bytes.length - tail))
  }

  /** What will never be completed. */
  end(): TextChunk | undefined {
    const held = this.#held
    this.#held = NONE
    return decode(held)
  }
}

const decode = (bytes: Buffer): TextChunk | undefined =>
  bytes.length === 0 ? undefined : { data: bytes.toString(), bytes: bytes.length, lossy: !isUtf8(bytes) }
