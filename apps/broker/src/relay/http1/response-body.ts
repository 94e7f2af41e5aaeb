import type { Framing } from './response-head.ts'

/** A chunk's size line may have extensions, which nobody uses. */
const MAX_LINE_BYTES = 256
const SIZE_LINE = /^([0-9a-f]{1,12})(?:;[!#$%&'*+.^_`|~0-9a-z-]+(?:=[!#$%&'*+.^_`|~0-9a-z-]+)?)*$/i
const LF = 10

/** Finds the pieces of a body, and its end, in what comes. */
export class ResponseBody {
  readonly #type: Framing['type']
  /** Of the body, or of the chunk, with a chunk's line break counted apart. */
  #left: number
  #line = ''
  #in: 'size' | 'data' | 'break' | 'last' = 'size'
  ended: boolean

  constructor(framing: Framing) {
    this.#type = framing.type
    this.#left = framing.type === 'length' ? framing.bytes : 0
    this.ended = framing.type === 'none' || (framing.type === 'length' && framing.bytes === 0)
  }

  /** Whether the end of the connection is the end of the body. */
  get endsWithConnection(): boolean {
    return this.#type === 'close'
  }

  /** Calls `piece` with the parts that belong to the body. Throws for malformed chunks and for bytes after the end. */
  push(bytes: Buffer, piece: (part: Buffer) => void): void {
    if (this.ended && bytes.length > 0) throw new Error('an answer longer than it said')
    if (this.#type === 'close') return piece(bytes)
    if (this.#type === 'chunked') return this.#pushChunked(bytes, piece)
    if (bytes.length > this.#left) throw new Error('an answer longer than it said')
    this.#left -= bytes.length
    this.ended = this.#left === 0
    piece(bytes)
  }

  #pushChunked(bytes: Buffer, piece: (part: Buffer) => void): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.ended) throw new Error('an answer longer than it said')
      if (this.#in === 'data') {
        const end = Math.min(bytes.length, at + this.#left)
        piece(bytes.subarray(at, end))
        this.#left -= end - at
        at = end
        if (this.#left === 0) this.#in = 'break'
        continue
      }
      const lf = bytes.indexOf(LF, at)
      const end = lf === -1 ? bytes.length : lf + 1
      if (this.#line.length + end - at > MAX_LINE_BYTES) throw new Error('an answer with a malformed chunk')
      this.#line += bytes.toString('latin1', at, end)
      at = end
      if (lf !== -1) this.#onLine()
    }
  }

  #onLine(): void {
    const line = this.#line
    this.#line = ''
    if (!line.endsWith('\r\n')) throw new Error('an answer with a malformed chunk')
    if (this.#in === 'size') {
      const size = SIZE_LINE.exec(line.slice(0, -2))?.[1]
      if (size === undefined) throw new Error('an answer with a malformed chunk')
      this.#left = Number.parseInt(size, 16)
      this.#in = this.#left === 0 ? 'last' : 'data'
      return
    }
    // No trailers: nobody asked for any.
    if (line !== '\r\n') throw new Error('an answer with a malformed chunk')
    if (this.#in === 'last') this.ended = true
    this.#in = 'size'
  }
}
