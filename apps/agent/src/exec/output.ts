import { isUtf8 } from 'node:buffer'
import { continuedHead, incompleteTail } from '@boxoffice/kit/utf8-edges'
import { type OutputEncoding, OutputText } from './output-text.ts'

export type OutputKeep = 'head_tail' | 'head' | 'tail'

/** `head_tail` gives this part of the limit to the start. */
const HEAD_SHARE = 0.6
/** Up to here output becomes one string. */
const STRING_BYTES = 64 * 1024

/**
 * Keeps the first and the last bytes of a stream within a limit (contract 3.2). Pieces are copied into two buffers that grow as
 * needed, because a stream of single bytes, kept as views, would cost a hundred times its size.
 */
export class OutputCollector {
  readonly #limit: number
  readonly #keep: OutputKeep
  readonly #headLimit: number
  readonly #tailLimit: number
  #head = Buffer.alloc(0)
  #headBytes = 0
  /** A ring once it is full: then `#tailAt` is where the oldest byte stands. */
  #tail = Buffer.alloc(0)
  #tailBytes = 0
  #tailAt = 0
  #total = 0
  /** Bytes that were lost before the first piece came. */
  #missed = 0

  constructor(limit: number, keep: OutputKeep) {
    this.#limit = limit
    this.#keep = keep
    this.#headLimit = keep === 'tail' ? 0 : keep === 'head' ? limit : Math.ceil(limit * HEAD_SHARE)
    this.#tailLimit = limit - this.#headLimit
  }

  /** The stream starts here, not at 0: the supervisor's ring has moved on. */
  startAt(offset: number): void {
    this.#missed = offset
  }

  push(piece: Buffer): void {
    this.#total += piece.length
    const toHead = Math.min(piece.length, this.#headLimit - this.#headBytes)
    if (toHead > 0) {
      this.#head = grown(this.#head, this.#headBytes + toHead, this.#headLimit)
      piece.copy(this.#head, this.#headBytes, 0, toHead)
      this.#headBytes += toHead
    }
    if (toHead < piece.length && this.#tailLimit > 0) this.#pushTail(piece.subarray(Math.max(toHead, piece.length - this.#tailLimit)))
  }

  #pushTail(piece: Buffer): void {
    const room = this.#tailLimit - this.#tailBytes
    const plain = Math.min(piece.length, room)
    if (plain > 0) {
      this.#tail = grown(this.#tail, this.#tailBytes + plain, this.#tailLimit)
      piece.copy(this.#tail, this.#tailBytes, 0, plain)
      this.#tailBytes += plain
    }
    for (let from = plain; from < piece.length; ) {
      const step = Math.min(piece.length - from, this.#tailLimit - this.#tailAt)
      piece.copy(this.#tail, this.#tailAt, from, from + step)
      this.#tailAt = (this.#tailAt + step) % this.#tailLimit
      from += step
    }
  }

  /** What was kept; the collector keeps nothing of it afterwards. */
  finish(encoding: OutputEncoding): { data: string | OutputText; truncated: boolean; lossy: boolean } {
    const head = this.#head.subarray(0, this.#headBytes)
    const tail =
      this.#tailAt === 0
        ? this.#tail.subarray(0, this.#tailBytes)
        : Buffer.concat([this.#tail.subarray(this.#tailAt, this.#tailBytes), this.#tail.subarray(0, this.#tailAt)])
    this.#head = Buffer.alloc(0)
    this.#tail = Buffer.alloc(0)
    const whole = this.#total === head.length + tail.length
    const pieces = whole ? [head, tail] : this.#cut(head, tail)
    const truncated = !whole || this.#missed > 0
    const kept = this.#missed > 0 ? withoutContinued(pieces) : pieces
    if (kept.reduce((sum, { length }) => sum + length, 0) > STRING_BYTES) {
      const data = new OutputText(kept, encoding)
      return { data, truncated, lossy: data.lossy }
    }
    const bytes = kept.length === 1 ? (kept[0] as Buffer) : Buffer.concat(kept)
    if (encoding === 'base64') return { data: bytes.toString('base64'), truncated, lossy: false }
    return { data: bytes.toString(), truncated, lossy: !isUtf8(bytes) }
  }

  #cut(head: Buffer, tail: Buffer): Buffer[] {
    if (this.#keep === 'head') return [head.subarray(0, head.length - incompleteTail(head))]
    if (this.#keep === 'tail') return [tail.subarray(continuedHead(tail))]
    // The notice counts itself out of the limit; what it says depends on how much it displaces, so its longest form is reserved.
    const room = this.#limit - notice(this.#total).length
    if (room <= 0) return [head.subarray(0, head.length - incompleteTail(head))]
    const first = head.subarray(0, Math.ceil(room * HEAD_SHARE))
    const start = first.subarray(0, first.length - incompleteTail(first))
    const last = tail.subarray(tail.length - (room - first.length))
    const end = last.subarray(continuedHead(last))
    return [start, Buffer.from(notice(this.#total - start.length - end.length)), end]
  }
}

/** Without the bytes that continue a character of what is missing before them. A head may be shorter than a character. */
const withoutContinued = (pieces: readonly Buffer[]): Buffer[] => {
  const [first, ...others] = pieces.filter(({ length }) => length > 0)
  if (first === undefined) return []
  if (first.length < 3 && others.length > 0) return withoutContinued([Buffer.concat([first, others[0] as Buffer]), ...others.slice(1)])
  return [first.subarray(continuedHead(first)), ...others]
}

const notice = (bytes: number): string => `\n\n... [${bytes} bytes truncated] ...\n\n`

const grown = (buffer: Buffer<ArrayBuffer>, needed: number, limit: number): Buffer<ArrayBuffer> => {
  if (buffer.length >= needed) return buffer
  const larger = Buffer.allocUnsafeSlow(Math.min(limit, Math.max(needed, buffer.length * 2)))
  buffer.copy(larger)
  return larger
}
