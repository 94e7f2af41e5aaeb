import { isUtf8 } from 'node:buffer'
import { PROCESS_LIMITS } from '@boxoffice/protocol'

const NEWLINE = 0x0a

/** Cuts a stream of bytes into lines; what it gives is the receiver's, what it is given is not kept. */
export class LineSplitter {
  readonly #line: (line: Buffer, bytes: number) => void
  #pieces: Buffer[] = []
  #held = 0

  /** `line` is UTF-8 without its newline; `bytes` is what it was in the stream. */
  constructor(line: (line: Buffer, bytes: number) => void) {
    this.#line = line
  }

  /** Bytes of a line that is not whole yet. */
  get held(): number {
    return this.#held
  }

  /** False when a line is longer than one may be. */
  push(piece: Buffer): boolean {
    let from = 0
    for (let at = piece.indexOf(NEWLINE); at !== -1; at = piece.indexOf(NEWLINE, from)) {
      this.#take(piece.subarray(from, at), 1)
      from = at + 1
    }
    if (from < piece.length) this.#pieces.push(Buffer.from(piece.subarray(from)))
    this.#held += piece.length - from
    return this.#held <= PROCESS_LIMITS.lineBytes
  }

  /** The stream has ended: what is left is the last line. */
  end(): void {
    if (this.#held > 0) this.#take(Buffer.alloc(0), 0)
  }

  #take(last: Buffer, newline: 0 | 1): void {
    const line = this.#pieces.length === 0 ? Buffer.from(last) : Buffer.concat([...this.#pieces, last])
    this.#pieces = []
    this.#held = 0
    // A text message must be UTF-8.
    this.#line(isUtf8(line) ? line : Buffer.from(line.toString()), line.length + newline)
  }
}
