const encoder = new TextEncoder()
const REPORT_EVERY_BYTES = 128 * 1024
/** A line may be 16 MiB long, and so may a message: in base64 the rest of a line has to go in pieces. */
const PIECE_BYTES = 1024 * 1024

/**
 * What a client of a line socket has sent and received, in bytes, so that after a lost connection it goes on exactly where the
 * process is: no byte twice, none left out.
 */
export class ResendBuffer {
  /** Where the next line of stdout begins. */
  received = 0
  #reported = 0
  #sent = 0
  /** Lines that the process may not have, oldest first; `end` is their offset on stdin. */
  #unconfirmed: { bytes: Uint8Array; end: number }[] = []

  /** A line is about to be sent. */
  sent(line: string): void {
    const bytes = encoder.encode(line.endsWith('\n') ? line : `${line}\n`)
    this.#sent += bytes.length
    this.#unconfirmed.push({ bytes, end: this.#sent })
  }

  /** A line has come. True: it is time to report `received` to the server. */
  got(line: string): boolean {
    this.received += encoder.encode(line).length + 1
    if (this.received - this.#reported < REPORT_EVERY_BYTES) return false
    this.#reported = this.received
    return true
  }

  /** The process has stdin up to here. */
  confirmed(offset: number): void {
    const rest = this.#unconfirmed.findIndex(({ end }) => end > offset)
    this.#unconfirmed.splice(0, rest === -1 ? this.#unconfirmed.length : rest)
  }

  get unconfirmedBytes(): number {
    const first = this.#unconfirmed[0]
    return first === undefined ? 0 : this.#sent - first.end + first.bytes.length
  }

  /** The first connection to a process: others may have written to it before. */
  begin(stdout: number, stdin: number): void {
    this.received = this.#reported = stdout
    this.#sent = stdin
    this.#unconfirmed = []
  }

  /** Another connection, to a process that has stdin up to `stdin`: what it lacks, in order, for a `stdin` frame each. */
  resume(stdout: number, stdin: number): Uint8Array[] {
    this.received = this.#reported = stdout
    this.confirmed(stdin)
    return this.#unconfirmed.flatMap(({ bytes, end }) => piecesOf(bytes.subarray(Math.max(0, bytes.length - (end - stdin)))))
  }
}

const piecesOf = (bytes: Uint8Array): Uint8Array[] =>
  Array.from({ length: Math.ceil(bytes.length / PIECE_BYTES) }, (_, i) => bytes.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES))
