/** Bytes of a stream as text: a character that is split over two pieces comes whole with the second. */
export class Utf8Chunks {
  #rest: Buffer = Buffer.alloc(0)

  /** The text that is complete by now, and the offset of its first byte; undefined: nothing yet. `offset` is that of `bytes`. */
  push(bytes: Buffer, offset: number): { data: string; offset: number } | undefined {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const begin = offset - this.#rest.length
    const end = all.length - incompleteTail(all)
    this.#rest = Buffer.from(all.subarray(end))
    return end === 0 ? undefined : { data: all.toString('utf8', 0, end), offset: begin }
  }

  /** How many bytes wait for the rest of their character. */
  get pendingBytes(): number {
    return this.#rest.length
  }

  /** What is left at the end of the stream, which is at `offset`. */
  end(offset: number): { data: string; offset: number } | undefined {
    const rest = this.#rest
    this.#rest = Buffer.alloc(0)
    return rest.length === 0 ? undefined : { data: rest.toString(), offset: offset - rest.length }
  }
}

/** How many bytes at the end begin a character that they do not complete. */
function incompleteTail(bytes: Buffer): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length++) {
    const byte = bytes[bytes.length - length] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return whole > length ? length : 0
  }
  return 0
}
