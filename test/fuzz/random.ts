import { createHash } from 'node:crypto'

/** Numbers that follow from a seed, so that a run can be repeated (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
  }

  /** One that follows from the bytes: what is decided by it comes again with the same input. */
  static of(bytes: Buffer): Random {
    return new Random(createHash('sha1').update(bytes).digest().readInt32LE())
  }

  /** A whole number in [0, limit). */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit)
  }

  of<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)] as T
  }

  /** True once in `times`. */
  once(times: number): boolean {
    return this.below(times) === 0
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.below(256)))
  }

  /** `bytes` cut at up to four places. */
  cut(bytes: Buffer): Buffer[] {
    const places = Array.from({ length: 1 + this.below(4) }, () => this.below(bytes.length + 1)).sort((a, b) => a - b)
    return [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length))
  }
}
