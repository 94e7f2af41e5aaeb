import { BoxofficeError, GapError } from '../base/errors.ts'
import { linesOf } from './text-lines.ts'

type Item = { bytes: Uint8Array } | { gap: GapError }

/**
 * One output stream of a process, as the application reads it: an async iterable of bytes, each exactly once and in order,
 * however many connections brought them. It has one reader at a time; a later one goes on where the last one stopped.
 *
 * Offsets count bytes from the start of the process. `consumed` is what was handed to the reader: only that is acknowledged,
 * so that a reader who stops stops the process.
 */
export class Inbox implements AsyncIterable<Uint8Array> {
  readonly name: 'stdout' | 'stderr'
  readonly #onConsumed: () => void
  #items: Item[] = []
  /** Where the next bytes of the present connection belong. */
  #cursor = 0
  #received: number | undefined
  #consumed = 0
  #end: { error: unknown } | 'open' | 'complete' = 'open'
  #reading = false
  #waiters: (() => void)[] = []

  constructor(name: 'stdout' | 'stderr', onConsumed: () => void) {
    this.name = name
    this.#onConsumed = onConsumed
  }

  /** The first byte that has not come yet; undefined before the first connection. */
  get received(): number | undefined {
    return this.#received
  }

  get reading(): boolean {
    return this.#reading
  }

  get consumed(): number {
    return this.#consumed
  }

  /** A connection begins, its first byte being `offset`. `wanted` is what it was asked for. */
  beginAt(offset: number, wanted: number | 'oldest' | 'end'): void {
    this.#cursor = offset
    const expected = this.#received ?? (typeof wanted === 'number' ? wanted : offset)
    if (this.#received === undefined) this.#consumed = this.#received = expected
    if (offset > expected) this.#skipTo(offset)
  }

  /** Takes the next bytes of the connection; what an earlier connection brought is dropped. */
  push(bytes: Uint8Array): void {
    const received = this.#received ?? 0
    const known = received - this.#cursor
    this.#cursor += bytes.length
    if (known >= bytes.length) return
    const fresh = known > 0 ? bytes.subarray(known) : bytes
    this.#received = received + fresh.length
    this.#items.push({ bytes: fresh })
    this.#wake()
  }

  /** The process has ended after writing `total` bytes. */
  complete(total: number): void {
    if (this.#end !== 'open') return
    if (this.#received !== undefined && total > this.#received) this.#skipTo(total)
    this.#end = 'complete'
    this.#wake()
  }

  /** No more will come, because of `error`. What is here can still be read. */
  fail(error: unknown): void {
    if (this.#end !== 'open') return
    this.#end = { error }
    this.#wake()
  }

  /** Resolves when the first `offset` bytes have come; rejects if the stream ends before. Reading does not matter to it. */
  async reaches(offset: number): Promise<void> {
    while ((this.#received ?? 0) < offset) {
      if (this.#end === 'complete') throw new RangeError(`${this.name} ended at ${this.#received ?? 0} bytes, before ${offset}`)
      if (this.#end !== 'open') throw this.#end.error
      await this.#change()
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#reading) throw new BoxofficeError('ALREADY_READING', `${this.name} is being read already; a stream has one reader`)
    this.#reading = true
    try {
      for (;;) {
        const item = this.#items.shift()
        if (item === undefined) {
          if (this.#end === 'complete') return
          if (this.#end !== 'open') throw this.#end.error
          await this.#change()
        } else if ('gap' in item) {
          this.#consumed = item.gap.to
          this.#onConsumed()
          throw item.gap
        } else {
          this.#consumed += item.bytes.length
          this.#onConsumed()
          yield item.bytes
        }
      }
    } finally {
      this.#reading = false
    }
  }

  /** All that is to come, decoded as UTF-8 (invalid bytes become U+FFFD). */
  async text(): Promise<string> {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    let text = ''
    for await (const bytes of this) text += decoder.decode(bytes, { stream: true })
    return text + decoder.decode()
  }

  /** What is to come, line by line. */
  lines(): AsyncGenerator<string, void, undefined> {
    return linesOf(this)
  }

  /** All that is to come. */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array[] = []
    let length = 0
    for await (const part of this) {
      parts.push(part)
      length += part.length
    }
    const whole = new Uint8Array(length)
    let at = 0
    for (const part of parts) {
      whole.set(part, at)
      at += part.length
    }
    return whole
  }

  #skipTo(offset: number): void {
    this.#items.push({ gap: new GapError(this.name, this.#received ?? 0, offset) })
    this.#received = offset
    this.#wake()
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve))
  }

  #wake(): void {
    const waiters = this.#waiters
    this.#waiters = []
    for (const wake of waiters) wake()
  }
}
