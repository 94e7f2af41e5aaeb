import type { Writable } from 'node:stream'
import { giveBuffer, POOLED_BYTES, takeBuffer } from '../../fast-io/buffer-pool.ts'

/** Sends pieces of memory that is not its own as a body: what one read brought is copied together and leaves with one write. */
export class BodyWriter {
  readonly #outgoing: Writable
  readonly #blocked: () => void
  #buffer: Buffer | undefined
  #bytes = 0

  /** `blocked`: the client is slower; `outgoing` emits `drain` when it has caught up. */
  constructor(outgoing: Writable, blocked: () => void) {
    this.#outgoing = outgoing
    this.#blocked = blocked
  }

  write(piece: Buffer): void {
    for (let at = 0; at < piece.length; ) {
      const buffer = this.#buffer ?? this.#begin()
      const copied = piece.copy(buffer, this.#bytes, at)
      at += copied
      this.#bytes += copied
      if (this.#bytes === POOLED_BYTES) this.flush()
    }
  }

  /** Before the end of the body. */
  flush(): void {
    const [buffer, bytes] = [this.#buffer, this.#bytes]
    if (buffer === undefined) return
    this.#buffer = undefined
    this.#bytes = 0
    if (!this.#outgoing.write(buffer.subarray(0, bytes), () => giveBuffer(buffer))) this.#blocked()
  }

  #begin(): Buffer {
    const buffer = takeBuffer()
    this.#buffer = buffer
    process.nextTick(() => {
      if (this.#buffer === buffer) this.flush()
    })
    return buffer
  }
}
