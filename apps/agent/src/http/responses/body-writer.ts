import type { Writable } from 'node:stream'
import { giveSlab, SLAB_BYTES, takeSlab } from '../../fast-io/buffer-pool.ts'

/** Sends pieces of memory that is not its own as a body: what one read brought is copied together and leaves with one write. */
export class BodyWriter {
  readonly #outgoing: Writable
  readonly #blocked: () => void
  #slab: Buffer | undefined
  #bytes = 0

  /** `blocked`: the client is slower; `outgoing` emits `drain` when it has caught up. */
  constructor(outgoing: Writable, blocked: () => void) {
    this.#outgoing = outgoing
    this.#blocked = blocked
  }

  write(piece: Buffer): void {
    for (let at = 0; at < piece.length; ) {
      const slab = this.#slab ?? this.#begin()
      const copied = piece.copy(slab, this.#bytes, at)
      at += copied
      this.#bytes += copied
      if (this.#bytes === SLAB_BYTES) this.flush()
    }
  }

  /** Before the end of the body. */
  flush(): void {
    const [slab, bytes] = [this.#slab, this.#bytes]
    if (slab === undefined) return
    this.#slab = undefined
    this.#bytes = 0
    if (!this.#outgoing.write(slab.subarray(0, bytes), () => giveSlab(slab))) this.#blocked()
  }

  #begin(): Buffer {
    const slab = takeSlab()
    this.#slab = slab
    process.nextTick(() => {
      if (this.#slab === slab) this.flush()
    })
    return slab
  }
}
