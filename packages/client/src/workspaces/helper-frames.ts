/** The frames of `supervisor --files` (packages/supervisor/WIRE.md), this side. */
export const KIND = { stdin: 0x00, data: 0x01, file: 0x14, result: 0x22, error: 0x23, end: 0x24 } as const

export const MAX_DATA_BYTES = 1024 * 1024
const HEADER_BYTES = 5

export const header = (kind: number, length: number): Buffer => {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES)
  bytes.writeUInt32LE(length + 1, 0)
  bytes[4] = kind
  return bytes
}

export const frame = (kind: number, message: object): Buffer => {
  const payload = Buffer.from(JSON.stringify(message))
  return Buffer.concat([header(kind, payload.length), payload])
}

/** Cuts what arrives into frames. */
export class FrameReader {
  readonly #onFrame: (kind: number, payload: Buffer) => void
  #held: Buffer[] = []
  #heldBytes = 0
  /** Less than this is no frame. */
  #wanted = HEADER_BYTES

  constructor(onFrame: (kind: number, payload: Buffer) => void) {
    this.#onFrame = onFrame
  }

  push(chunk: Buffer): void {
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    if (this.#heldBytes < this.#wanted) return
    let rest = Buffer.concat(this.#held)
    this.#wanted = HEADER_BYTES
    while (rest.length >= HEADER_BYTES) {
      const end = 4 + rest.readUInt32LE(0)
      if (rest.length < end) {
        this.#wanted = end
        break
      }
      this.#onFrame(rest[4] ?? 0, rest.subarray(HEADER_BYTES, end))
      rest = rest.subarray(end)
    }
    this.#held = rest.length === 0 ? [] : [rest]
    this.#heldBytes = rest.length
  }
}
