import { continuedHead, incompleteTail } from '@boxoffice/kit/utf8-edges'

/** `head_tail` gives this part of the limit to the start. */
const HEAD_SHARE = 0.6

export type OutputKeep = 'head_tail' | 'head' | 'tail'

/** The first and the last bytes of a stream within a limit, cut as the server cuts them (contract 3.2). */
export class KeptOutput {
  readonly #limit: number
  readonly #keep: OutputKeep
  readonly #head: ByteBuffer
  readonly #tail: ByteBuffer
  readonly #tailLimit: number
  #total = 0
  #start = 0

  constructor(limit: number, keep: OutputKeep) {
    this.#limit = limit
    this.#keep = keep
    const headLimit = keep === 'tail' ? 0 : keep === 'head' ? limit : Math.ceil(limit * HEAD_SHARE)
    this.#tailLimit = limit - headLimit
    this.#head = new ByteBuffer(headLimit)
    // Twice of what is kept, so that the kept bytes move once for each `tailLimit` that comes, and not with each piece.
    this.#tail = new ByteBuffer(2 * this.#tailLimit)
  }

  /** The first piece begins here, not at 0: what came before is no longer kept. */
  startAt(offset: number): void {
    this.#start = offset
  }

  push(piece: Uint8Array): void {
    this.#total += piece.length
    const rest = piece.subarray(this.#head.fill(piece))
    const last = rest.subarray(Math.max(0, rest.length - this.#tailLimit))
    if (last.length > this.#tail.room) this.#tail.keepLast(this.#tailLimit - last.length)
    this.#tail.fill(last)
  }

  /** `written` is what the process wrote; the first of it may not have come here. */
  finish(written: number): { text: string; truncated: boolean; lossy: boolean } {
    this.#tail.keepLast(this.#tailLimit)
    const [head, tail] = [this.#head.bytes, this.#tail.bytes]
    const pieces = this.#total > head.length + tail.length ? this.#cut(head, tail) : [head, tail]
    return { ...textOf(this.#start > 0 ? afterMissing(pieces) : pieces), truncated: written > head.length + tail.length }
  }

  #cut(head: Uint8Array, tail: Uint8Array): Uint8Array[] {
    if (this.#keep === 'head') return [withoutIncomplete(head)]
    if (this.#keep === 'tail') return [withoutContinued(tail)]
    // The notice counts itself out of the limit; what it says depends on how much it displaces, so its longest form is reserved.
    const room = this.#limit - notice(this.#total).length
    if (room <= 0) return [withoutIncomplete(head)]
    const first = head.subarray(0, Math.ceil(room * HEAD_SHARE))
    const start = withoutIncomplete(first)
    const end = withoutContinued(tail.subarray(tail.length - (room - first.length)))
    return [start, new TextEncoder().encode(notice(this.#total - start.length - end.length)), end]
  }
}

/** Bytes that come in pieces, up to a limit. */
class ByteBuffer {
  readonly #limit: number
  #bytes = new Uint8Array(0)
  #length = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get room(): number {
    return this.#limit - this.#length
  }

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Takes what there is room for, and gives how much that is. */
  fill(piece: Uint8Array): number {
    const taken = Math.min(piece.length, this.room)
    const needed = this.#length + taken
    if (needed > this.#bytes.length) {
      const larger = new Uint8Array(Math.min(this.#limit, Math.max(needed, 2 * this.#bytes.length)))
      larger.set(this.bytes)
      this.#bytes = larger
    }
    this.#bytes.set(piece.subarray(0, taken), this.#length)
    this.#length = needed
    return taken
  }

  keepLast(count: number): void {
    if (count >= this.#length) return
    this.#bytes.copyWithin(0, this.#length - count, this.#length)
    this.#length = count
  }
}

const withoutIncomplete = (bytes: Uint8Array): Uint8Array => bytes.subarray(0, bytes.length - incompleteTail(bytes))

const withoutContinued = (bytes: Uint8Array): Uint8Array => bytes.subarray(continuedHead(bytes))

/** Without the bytes that continue a character of what is missing before them. A piece may be shorter than a character. */
const afterMissing = (pieces: readonly Uint8Array[]): Uint8Array[] => {
  let most = 3
  return pieces.map((piece) => {
    const cut = Math.min(most, continuedHead(piece))
    most = cut < piece.length ? 0 : most - cut
    return piece.subarray(cut)
  })
}

const notice = (bytes: number): string => `\n\n... [${bytes} bytes truncated] ...\n\n`

const textOf = (pieces: readonly Uint8Array[]): { text: string; lossy: boolean } => {
  try {
    return { text: decode(pieces, true), lossy: false }
  } catch {
    return { text: decode(pieces, false), lossy: true }
  }
}

/** As one stream: a character may begin in one piece and end in the next. */
const decode = (pieces: readonly Uint8Array[], fatal: boolean): string => {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true, fatal })
  return pieces.map((piece) => decoder.decode(piece, { stream: true })).join('') + decoder.decode()
}
