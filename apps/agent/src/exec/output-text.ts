import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { incompleteTail } from '@boxoffice/kit/utf8-edges'

export type OutputEncoding = 'utf8' | 'base64'

/** Raw bytes that become one piece of text. A multiple of 3, so that pieces of base64 fit together. */
const STEP_BYTES = 48 * 1024

/**
 * Output that is too large for one string: a NUL is six bytes in JSON, so 16 MiB of them are 96. `JSON.stringify` puts `mark` in
 * its place, and who sends the JSON puts `encoded()` in the place of the mark.
 */
export class OutputText {
  readonly mark: string = `output ${randomUUID()}`
  readonly bytes: number
  readonly lossy: boolean
  readonly #pieces: readonly Buffer[]
  readonly #encoding: OutputEncoding

  constructor(pieces: readonly Buffer[], encoding: OutputEncoding) {
    this.#pieces = pieces
    this.#encoding = encoding
    this.bytes = pieces.reduce((sum, { length }) => sum + length, 0)
    this.lossy = encoding === 'utf8' && !isUtf8Throughout(pieces)
  }

  toJSON(): string {
    return this.mark
  }

  /** The inside of its JSON string, piece by piece. */
  *encoded(): Generator<string> {
    // A byte order mark is output like any other.
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    for (const step of stepsOf(this.#pieces)) {
      if (this.#encoding === 'base64') yield step.toString('base64')
      else yield escaped(decoder.decode(step, { stream: true }))
    }
    if (this.#encoding === 'utf8') yield escaped(decoder.decode())
  }
}

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1)

/** Steps of the same size, whatever the pieces; only the last is shorter. */
function* stepsOf(pieces: readonly Buffer[]): Generator<Buffer> {
  let rest: Buffer = Buffer.alloc(0)
  for (const piece of pieces) {
    let at = 0
    if (rest.length > 0) {
      at = Math.min(piece.length, STEP_BYTES - rest.length)
      rest = Buffer.concat([rest, piece.subarray(0, at)])
      if (rest.length < STEP_BYTES) continue
      yield rest
    }
    for (; piece.length - at >= STEP_BYTES; at += STEP_BYTES) yield piece.subarray(at, at + STEP_BYTES)
    rest = piece.subarray(at)
  }
  if (rest.length > 0) yield rest
}

const isUtf8Throughout = (pieces: readonly Buffer[]): boolean => {
  let rest: Buffer = Buffer.alloc(0)
  for (const step of stepsOf(pieces)) {
    const bytes = rest.length === 0 ? step : Buffer.concat([rest, step])
    const complete = bytes.length - incompleteTail(bytes)
    if (!isUtf8(bytes.subarray(0, complete))) return false
    rest = bytes.subarray(complete)
  }
  return rest.length === 0
}
