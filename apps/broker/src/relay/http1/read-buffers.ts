/** Enough for most answers; every connection has one while little comes. */
const SMALL_BYTES = 8 * 1024
/** What fills a small one is a stream, which costs less the more is read at once. */
const LARGE_BYTES = 256 * 1024
const MAX_FREE = 16

const free: Buffer[] = []

/**
 * Where a connection's bytes arrive. What was read is overwritten by the next read, unless somebody holds it until it has been
 * written out; then the next read goes elsewhere. Streams so neither copy nor leave a buffer to the collector with every read.
 */
export class ReadBuffer {
  readonly bytes: Buffer
  #holders = 0
  #left = false

  private constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  static small(): ReadBuffer {
    return new ReadBuffer(Buffer.allocUnsafeSlow(SMALL_BYTES))
  }

  static large(): ReadBuffer {
    return new ReadBuffer(free.pop() ?? Buffer.allocUnsafeSlow(LARGE_BYTES))
  }

  /** Keeps the bytes as they are until `release` was called once for each hold. */
  hold(): void {
    this.#holders++
  }

  /** Can be passed as the callback of a write. */
  readonly release = (): void => {
    this.#holders--
    if (this.#left) this.#giveBack()
  }

  /** The one to read into after `read` bytes came into this one. */
  next(read: number): ReadBuffer {
    const isLarge = this.bytes.length === LARGE_BYTES
    const wantsLarge = isLarge ? read > SMALL_BYTES : read === SMALL_BYTES
    if (this.#holders === 0 && isLarge === wantsLarge) return this
    this.leave()
    return wantsLarge ? ReadBuffer.large() : ReadBuffer.small()
  }

  /** Nothing is read into it any more. */
  leave(): void {
    if (this.#left) return
    this.#left = true
    this.#giveBack()
  }

  #giveBack(): void {
    if (this.#holders === 0 && this.bytes.length === LARGE_BYTES && free.length < MAX_FREE) free.push(this.bytes)
  }
}
