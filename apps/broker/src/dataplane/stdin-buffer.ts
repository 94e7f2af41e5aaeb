/** A message to the agent is at most so long. */
const PIECE_BYTES = 256 * 1024

/** What was written to a process and may not have reached it, so that another connection goes on where it is. */
export class StdinBuffer {
  #sent = 0
  /** `end` is the offset behind the bytes. */
  #unconfirmed: { bytes: Uint8Array; end: number }[] = []
  isEnded = false

  /** Takes bytes that are about to be sent, and gives them back in pieces that fit a message. */
  add(bytes: Uint8Array): Uint8Array[] {
    this.#sent += bytes.length
    this.#unconfirmed.push({ bytes, end: this.#sent })
    return piecesOf(bytes)
  }

  end(): void {
    this.isEnded = true
  }

  get unconfirmedBytes(): number {
    const first = this.#unconfirmed[0]
    return first === undefined ? 0 : this.#sent - first.end + first.bytes.length
  }

  /** The first connection finds that the process has so many bytes already, of others. */
  begin(offset: number): void {
    this.#sent += offset
    for (const piece of this.#unconfirmed) piece.end += offset
  }

  /** The process has stdin up to here. */
  confirm(offset: number): void {
    const rest = this.#unconfirmed.findIndex(({ end }) => end > offset)
    this.#unconfirmed.splice(0, rest === -1 ? this.#unconfirmed.length : rest)
  }

  /** What a process lacks that has stdin up to `offset`, in order, in pieces that fit a message. */
  missingFrom(offset: number): Uint8Array[] {
    this.confirm(offset)
    return this.#unconfirmed.flatMap(({ bytes, end }) => piecesOf(bytes.subarray(Math.max(0, bytes.length - (end - offset)))))
  }
}

const piecesOf = (bytes: Uint8Array): Uint8Array[] =>
  Array.from({ length: Math.ceil(bytes.length / PIECE_BYTES) }, (_, i) => bytes.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES))
