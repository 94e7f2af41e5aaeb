import { BoxofficeError } from '@boxoffice/protocol'

const NEWLINE = 0x0a
const MAX_LINE_BYTES = 64 * 1024

/** Cuts the NDJSON of a supervisor into values. It keeps copies only: a piece is overwritten by the next read. */
export class JsonLines {
  readonly #take: (value: unknown) => void
  #held: Buffer = Buffer.alloc(0)

  constructor(take: (value: unknown) => void) {
    this.#take = take
  }

  /** Throws for a line that is too long, or is not JSON. */
  push(piece: Buffer): void {
    let bytes = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece])
    for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE)) {
      if (end > 0) this.#take(JSON.parse(bytes.subarray(0, end).toString()))
      bytes = bytes.subarray(end + 1)
    }
    if (bytes.length > MAX_LINE_BYTES) throw new BoxofficeError('INTERNAL', 'An internal error occurred; the log has the request_id')
    this.#held = Buffer.from(bytes)
  }

  /** The last line may have no newline. */
  end(): void {
    if (this.#held.length > 0) this.#take(JSON.parse(this.#held.toString()))
  }
}
